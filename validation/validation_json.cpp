// Validations for programs: JSON, and CSV with one line a row.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/text/csv_quote.hpp"
#include "validation/activity_summary.hpp"
#include "validation/bars.hpp"
#include "validation/validation.hpp"

namespace rigcast {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json row_json(const ValidationRow& row) {
  const auto inside = row.inside();
  return {
      {"id", row.id},
      {"rig", row.rig},
      {"regime", std::string(name(row.regime))},
      {"metric", row.metric},
      {"predicted", number(row.predicted)},
      {"measured", number(row.measured)},
      {"error", number(row.error())},
      {"interval",
       row.interval ? Json::array({number(row.interval->lo), number(row.interval->hi)}) : Json()},
      {"inside", inside ? Json(*inside) : Json()},
      {"counted", row.counted},
  };
}

Json summary_json(const ValidationSummary& s) {
  return {
      {"metric", s.metric},
      {"regime", s.regime},
      {"n", s.n},
      {"chips", s.chips},
      {"median_abs_error", number(s.median_abs_error)},
      {"p90_abs_error", number(s.p90_abs_error)},
      {"bias", number(s.bias)},
      {"coverage", number(s.coverage)},
  };
}

Json activity_json(const ActivityRow& a) {
  return {
      {"phase", std::string(name(a.phase))},
      {"kind", std::string(name(a.kind))},
      {"predicted_s", number(a.predicted_s)},
      {"measured_s", number(a.measured_s)},
      {"error", number(a.predicted_s / a.measured_s - 1)},
  };
}

Json run_json(const BarVerdict::Run& run) { return {{"id", run.id}, {"error", number(run.error)}}; }

template <class T, class F>
Json list(const T& items, F each) {
  Json out = Json::array();
  for (const auto& item : items) out.push_back(each(item));
  return out;
}

Json verdict_json(const BarVerdict& v) {
  return {
      {"label", v.bar.label},
      {"metric", v.bar.metric},
      {"runs", v.runs},
      {"median_abs_error", number(v.median)},
      {"worst", run_json(v.worst)},
      {"allowed_median", v.bar.median},
      {"allowed_worst", v.bar.worst},
      {"median_holds", v.median_holds},
      {"worst_holds", v.worst_holds},
      {"inside", v.inside},
      {"with_interval", v.with_interval},
      {"beyond", list(v.beyond, run_json)},
  };
}

Json summary_json(const ActivitySummary& s) {
  return {
      {"activity", s.activity},
      {"runs", s.runs},
      {"share", number(s.share)},
      {"median_abs_error", number(s.median_abs_error)},
      {"median_error", number(s.median_error)},
      {"worst_error", number(s.worst_error)},
  };
}

std::string field(double value) { return std::isfinite(value) ? fmt::format("{}", value) : ""; }

std::string field(bool value) { return value ? "1" : "0"; }

}  // namespace

std::string to_json(const Validation& v, std::span<const BarVerdict> verdicts) {
  const auto remark = [](const SkippedRun& s) -> Json {
    return {{"id", s.id}, {"reason", s.reason}};
  };
  Json json = {
      {"schema", "rigcast.validation/1"},
      {"rows", list(v.rows, row_json)},
      {"summary", list(v.summary, [](const ValidationSummary& s) { return summary_json(s); })},
      {"activities", list(v.activities, activity_json)},
      {"traced_slowdown", v.traced_slowdown ? number(*v.traced_slowdown) : Json()},
      {"skipped", list(v.skipped, remark)},
      {"notes", list(v.notes, remark)},
  };
  if (!verdicts.empty()) {
    json["bars"] = list(verdicts, verdict_json);
    json["activity_summary"] = list(summarize_activities(v.rows),
                                    [](const ActivitySummary& s) { return summary_json(s); });
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
    out += fmt::format(
        "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", csv_quote(r.id), csv_quote(r.rig),
        csv_quote(r.chip), csv_quote(r.what), name(r.regime), field(r.deep), field(r.quantized_kv),
        field(r.ram_known), r.metric, field(r.predicted), field(r.measured), field(r.error()),
        r.interval ? field(r.interval->lo) : "", r.interval ? field(r.interval->hi) : "",
        inside ? field(*inside) : "", field(r.counted));
  }
  return out;
}

std::string to_json(std::span<const ActivityRow> activities) {
  return list(activities, activity_json).dump(2) + "\n";
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
