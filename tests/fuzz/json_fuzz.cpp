// Any text as JSON: the first letter says whether it is read as llama-bench's output, as the report
// of a run or as the times of its activities, each held against a forecast, or as a model's
// config.json.

#include <memory>

#include "core/model/hugging_face_config.hpp"
#include "core/model/kv_bytes.hpp"
#include "measurements/read_measurements.hpp"
#include "report/report_from_json.hpp"
#include "report/report_json.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "validation/report_comparison.hpp"
#include "validation/validation_json.hpp"

namespace {

using namespace rigcast;

void llama_bench(std::string_view text) {
  std::vector<std::string> skipped;
  fuzz::check(parse_measurements(text, "fuzz.json", &skipped));
}

Report a_forecast() {
  Report report;
  auto scenario = std::make_shared<Scenario>();
  scenario->rig.gpus.resize(1);
  report.scenario = scenario;
  report.resident = report.warm = report.cold = TtftBreakdown{};
  report.decode_tokens_per_s = report.prefill_tokens_per_s = 10;
  report.by_position.resize(3);
  for (std::size_t i = 0; i < 3; ++i) report.by_position[i].tokens = TokenCount(64 * i);
  report.cliffs.resize(1);
  report.cliffs.front().at_tokens = 100;
  report.memory.devices.resize(2);
  return report;
}

void run_report(std::string_view text) {
  static const Report forecast = a_forecast();
  static const std::vector<ActivityRow> activities(1);
  const auto report = report_from_json(text, forecast.scenario);
  if (!fuzz::check(report)) return;
  fuzz::sink = fuzz::sink + compare_reports("fuzz", forecast, *report, activities).size();
  for (const TokenCount at : positions_of(*report)) RIGCAST_ASSERT(at >= 0);
  const std::string again = to_json(*report);
  const auto twice = report_from_json(again, forecast.scenario);
  RIGCAST_ASSERT(twice.ok() && to_json(*twice) == again);
}

void activities(std::string_view text) {
  const auto rows = activities_from_json(text);
  fuzz::sink = fuzz::sink + to_json(rows).size() + compare_activities({}, rows).size();
}

void config(std::string_view text) {
  const auto spec = parse_hugging_face_config(text, "config.json");
  if (!fuzz::check(spec)) return;
  RIGCAST_ASSERT(spec->heads % spec->kv_heads == 0);
  RIGCAST_ASSERT(kv_bytes(*spec, 1000, {}) >= 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input in(data, size);
  switch (in.byte()) {
    case 'r': run_report(in.rest()); break;
    case 'a': activities(in.rest()); break;
    case 'h': config(in.rest()); break;
    default: llama_bench(in.rest()); break;
  }
  return 0;
}
