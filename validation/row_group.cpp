#include "validation/row_group.hpp"

namespace rigcast {

bool RowGroup::contains(Regime of_row, bool deep, bool quantized_kv) const {
  switch (kind) {
    case Kind::kRegime: return of_row == regime;
    case Kind::kDeepContext: return deep;
    case Kind::kQuantizedKv: return quantized_kv;
    case Kind::kAll: return true;
  }
  return false;
}

std::string_view name(const RowGroup& group) {
  switch (group.kind) {
    case RowGroup::Kind::kRegime: return name(group.regime);
    case RowGroup::Kind::kDeepContext: return "deep context";
    case RowGroup::Kind::kQuantizedKv: return "quantized KV";
    case RowGroup::Kind::kAll: return "all";
  }
  return "";
}

std::vector<RowGroup> row_groups() {
  using Kind = RowGroup::Kind;
  std::vector<RowGroup> groups;
  for (int r = 0; r < kRegimeCount; ++r) groups.push_back({Kind::kRegime, Regime(r)});
  for (const Kind kind : {Kind::kDeepContext, Kind::kQuantizedKv, Kind::kAll})
    groups.push_back({kind});
  return groups;
}

}  // namespace rigcast
