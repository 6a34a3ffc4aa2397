#include "validation/activity_summary.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "core/base/quantile.hpp"

namespace rigcast {
namespace {

constexpr std::string_view kActivities = "activities.";

struct Errors {
  std::string metric;
  std::vector<double> signed_errors, sizes, shares;
};

// "prefill fetch weights" of "activities.prefill.fetch_weights".
std::string text_of(const std::string& metric) {
  std::string text = metric.substr(kActivities.size());
  std::ranges::replace(text, '.', ' ');
  std::ranges::replace(text, '_', ' ');
  return text;
}

// The run and its phase.
std::pair<std::string, std::string> phase_of(const ValidationRow& row) {
  return {row.suite + '\n' + row.id, row.metric.substr(0, row.metric.rfind('.'))};
}

ActivitySummary summary_of(const Errors& e) {
  ActivitySummary s{text_of(e.metric), int(e.sizes.size())};
  s.share = median(e.shares);
  s.median_abs_error = median(e.sizes);
  s.median_error = median(e.signed_errors);
  s.worst_error =
      *std::ranges::max_element(e.signed_errors, {}, [](double error) { return std::fabs(error); });
  return s;
}

}  // namespace

std::vector<ActivitySummary> summarize_activities(std::span<const ValidationRow> rows) {
  std::vector<const ValidationRow*> own;
  for (const ValidationRow& row : rows)
    if (row.counted && row.metric.starts_with(kActivities)) own.push_back(&row);
  std::map<std::pair<std::string, std::string>, double> phase_s;
  for (const ValidationRow* row : own) phase_s[phase_of(*row)] += row->measured;
  std::vector<Errors> found;
  for (const ValidationRow* row : own) {
    auto e = std::ranges::find(found, row->metric, &Errors::metric);
    if (e == found.end()) e = found.insert(found.end(), {row->metric, {}, {}, {}});
    e->signed_errors.push_back(row->error());
    e->sizes.push_back(std::fabs(row->error()));
    e->shares.push_back(row->measured / phase_s.at(phase_of(*row)));
  }
  std::vector<ActivitySummary> out;
  for (const Errors& e : found) out.push_back(summary_of(e));
  return out;
}

}  // namespace rigcast
