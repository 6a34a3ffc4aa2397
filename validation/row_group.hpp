#pragma once
// Rows whose errors are summarised together: those of a regime, or those that share a property.

#include <string_view>
#include <vector>

#include "core/scenario/regime.hpp"

namespace rigcast {

struct RowGroup {
  enum class Kind { kRegime, kDeepContext, kQuantizedKv, kAll };
  Kind kind = Kind::kAll;
  Regime regime = Regime::kResident;  // of kRegime

  /// `deep`: 8,192 tokens or more in the cache.
  bool contains(Regime regime, bool deep, bool quantized_kv) const;
};
/// The regime's name, "deep context", "quantized KV" or "all".
std::string_view name(const RowGroup& group);

/// Every regime, then the groups that cut across regimes, then all rows.
std::vector<RowGroup> row_groups();

}  // namespace rigcast
