#include "calibration/evidence.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace rigcast::calibration {
namespace {

using Rows = std::vector<LeftOutRow>;

template <class Has>
Rows those(std::span<const LeftOutRow> rows, const Has& has) {
  Rows out;
  std::ranges::copy_if(rows, std::back_inserter(out), has);
  return out;
}

EvidenceGroup group_of(std::string what, const Rows& rows) {
  EvidenceGroup g;
  g.what = std::move(what);
  g.rows = int(rows.size());
  g.chips = chips(rows);
  std::set<std::string> sources;
  std::map<int, int> years;
  for (const LeftOutRow& row : rows) {
    sources.insert(row.source);
    ++years[row.year];
  }
  g.sources = int(sources.size());
  g.by_year.assign(years.begin(), years.end());
  if (!rows.empty()) g.left_out = left_out_quantiles(rows, Weighing::kChipsEqual);
  return g;
}

// How little a row has in common with what is forecast. The chip counts most, because its figures
// are those that nobody can compute.
int distance(const LeftOutRow& row, const EvidenceQuery& query, const std::string& family) {
  const int chip = row.chip == query.chip ? 0 : row.family == family ? 4 : 12;
  return chip + (row.model == query.model ? 0 : 2) + (row.quant == query.quant ? 0 : 1);
}

Rows nearest_of(Rows rows, const EvidenceQuery& query, const std::string& family,
                std::size_t count) {
  const auto key = [&](const LeftOutRow& row) {
    return std::pair(distance(row, query, family), -row.year);  // newer builds first
  };
  std::ranges::stable_sort(rows, {}, key);
  rows.resize(std::min(rows.size(), count));
  return rows;
}

}  // namespace

Evidence evidence(std::span<const LeftOutRow> rows, const EvidenceQuery& query, SpeedMetric metric,
                  std::size_t nearest) {
  const std::string family = fmt::format("{}", fmt::join(query.families, "+"));
  const Rows alike = those(rows, [&](const LeftOutRow& row) {
    return row.metric == metric && row.regime == query.regime;
  });
  const auto of_chip = [&](const LeftOutRow& row) { return row.chip == query.chip; };
  const auto of_family = [&](const LeftOutRow& row) { return row.family == family; };
  const auto of_model = [&](const LeftOutRow& row) { return row.model == query.model; };
  Evidence out;
  out.metric = metric;
  out.groups.push_back(group_of("this chip and model", those(those(alike, of_chip), of_model)));
  out.groups.push_back(group_of("this chip", those(alike, of_chip)));
  out.groups.push_back(group_of(fmt::format("its family, {}", family), those(alike, of_family)));
  out.groups.push_back(group_of("this model on any chip", those(alike, of_model)));
  out.groups.push_back(group_of("all", alike));
  out.nearest = nearest_of(alike, query, family, nearest);
  return out;
}

}  // namespace rigcast::calibration
