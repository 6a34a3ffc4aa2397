#include "validation/validation_json.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/text/csv_quote.hpp"
#include "report/json_values.hpp"
#include "validation/activity_summary.hpp"

namespace rigcast {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLargestErrors = 5;

Json row_json(const ValidationRow& row) {
  const auto inside = row.inside();
  Json json = {
      {"id", row.id},
      {"rig", row.rig},
      {"regime", std::string(name(row.regime))},
      {"metric", row.metric},
      {"predicted", json_number(row.predicted)},
      {"measured", json_number(row.measured)},
      {"error", json_number(row.error())},
      {"interval", row.interval
                       ? Json::array({json_number(row.interval->lo), json_number(row.interval->hi)})
                       : Json()},
      {"inside", inside ? Json(*inside) : Json()},
      {"counted", row.counted},
  };
  if (!row.load.empty()) json["load"] = row.load;
  return json;
}

Json summary_json(const ValidationSummary& s) {
  return {
      {"metric", s.metric},
      {"regime", std::string(name(s.group))},
      {"n", s.n},
      {"chips", s.chips},
      {"median_abs_error", json_number(s.median_abs_error)},
      {"p90_abs_error", json_number(s.p90_abs_error)},
      {"bias", json_number(s.bias)},
      {"coverage", json_number(s.coverage)},
  };
}

Json activity_json(const ActivityRow& a) {
  return {
      {"phase", std::string(name(a.phase))},
      {"kind", std::string(name(a.kind))},
      {"predicted_s", json_number(a.predicted_s)},
      {"measured_s", json_number(a.measured_s)},
      {"error", json_number(a.predicted_s / a.measured_s - 1)},
  };
}

Json run_json(const BarVerdict::Run& run) {
  return {{"id", run.id}, {"error", json_number(run.error)}};
}

Json verdict_json(const BarVerdict& v) {
  return {
      {"label", v.bar.label},
      {"metric", v.bar.metric},
      {"runs", v.runs},
      {"median_abs_error", json_number(v.median)},
      {"worst", run_json(v.worst)},
      {"allowed_median", v.bar.inside ? Json() : Json(v.bar.median)},
      {"allowed_worst", v.bar.worst ? Json(*v.bar.worst) : Json()},
      {"allowed_inside", v.bar.inside ? Json(*v.bar.inside) : Json()},
      {"median_holds", v.median_holds},
      {"worst_holds", v.worst_holds},
      {"inside_holds", v.inside_holds},
      {"inside", v.inside},
      {"with_interval", v.with_interval},
      {"beyond", json_list(v.beyond, run_json)},
  };
}

Json intervals_json(const IntervalCount& count) {
  return {{"inside", count.inside},
          {"with_interval", count.with_interval},
          {"share", json_number(double(count.inside) / count.with_interval)}};
}

Json large_error_json(const LargeError& e) {
  return {{"id", e.run.id}, {"label", e.label}, {"error", json_number(e.run.error)}};
}

Json activity_summary_json(const ActivitySummary& s) {
  return {
      {"activity", s.activity},
      {"runs", s.runs},
      {"share", json_number(s.share)},
      {"median_abs_error", json_number(s.median_abs_error)},
      {"median_error", json_number(s.median_error)},
      {"worst_error", json_number(s.worst_error)},
  };
}

std::string csv_flag(bool value) { return value ? "1" : "0"; }

}  // namespace

std::string to_json(const Validation& v, std::span<const BarVerdict> verdicts) {
  const auto remark = [](const SkippedRun& s) -> Json {
    return {{"id", s.id}, {"reason", s.reason}};
  };
  Json json = {
      {"schema", "rigcast.validation/1"},
      {"rows", json_list(v.rows, row_json)},
      {"summary", json_list(v.summary, summary_json)},
      {"activities", json_list(v.activities, activity_json)},
      {"traced_slowdown", v.traced_slowdown ? json_number(*v.traced_slowdown) : Json()},
      {"skipped", json_list(v.skipped, remark)},
      {"notes", json_list(v.notes, remark)},
  };
  if (!verdicts.empty()) {
    json["bars"] = json_list(verdicts, verdict_json);
    json["speed_intervals"] = intervals_json(speed_intervals(verdicts));
    json["largest_errors"] = json_list(largest_errors(verdicts, kLargestErrors), large_error_json);
    json["activity_summary"] = json_list(summarize_activities(v.rows), activity_summary_json);
  }
  // Names come from files of others, and may hold bytes that are no UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string to_json(const Validation& v) { return to_json(v, {}); }

std::string to_csv(const Validation& v) {
  std::string out =
      "id,rig,chip,what,regime,deep,quantized_kv,ram_known,metric,predicted,measured,error,"
      "interval_lo,interval_hi,inside,counted\n";
  for (const ValidationRow& r : v.rows) {
    const auto inside = r.inside();
    out += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", csv_quote(r.id),
                       csv_quote(r.rig), csv_quote(r.chip), csv_quote(r.what), name(r.regime),
                       csv_flag(r.deep), csv_flag(r.quantized_kv), csv_flag(r.ram_known), r.metric,
                       csv_number(r.predicted), csv_number(r.measured), csv_number(r.error()),
                       r.interval ? csv_number(r.interval->lo) : "",
                       r.interval ? csv_number(r.interval->hi) : "",
                       inside ? csv_flag(*inside) : "", csv_flag(r.counted));
  }
  return out;
}

std::string to_json(std::span<const ActivityRow> activities) {
  return json_list(activities, activity_json).dump(2) + "\n";
}

std::vector<ActivityRow> activities_from_json(std::string_view text) {
  std::vector<ActivityRow> out;
  // Not in order: the time to read that goes with the square of the keys.
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_array()) return out;
  for (const auto& a : json) {
    const auto seconds = [&](const char* key) {
      const auto found = a.is_object() ? a.find(key) : a.end();
      return found != a.end() && found->is_number() ? found->get<double>() : 0.0;
    };
    const auto says = [&](const char* key, std::string_view name) {
      return a.is_object() && a.contains(key) && a[key] == name;
    };
    for (const Phase phase : {Phase::kLoad, Phase::kTokenize, Phase::kPrefill, Phase::kDecode})
      for (int k = 0; k < kActivityKindCount; ++k)
        if (says("phase", name(phase)) && says("kind", name(ActivityKind(k))))
          out.push_back({phase, ActivityKind(k), seconds("predicted_s"), seconds("measured_s")});
  }
  return out;
}

}  // namespace rigcast
