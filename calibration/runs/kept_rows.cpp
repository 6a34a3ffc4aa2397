#include "calibration/runs/kept_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "validation/report_comparison.hpp"
#include "validation/runs/packed_runs.hpp"

namespace rigcast::calibration {
namespace {

constexpr std::string_view kSpeeds[] = {"decode.tokens_per_s", "prefill_tokens_per_s"};
// Of a load: how long a step of answers takes, and one of prompts beside them.
constexpr std::string_view kOfLoad[] = {"serving.tpot_s.p50", "serving.ttft_s.p50"};
constexpr std::string_view kOfCpu[] = {"activities.prefill.attention", "activities.prefill.ffn",
                                       "activities.decode.attention", "activities.decode.ffn",
                                       "activities.decode.head"};
// Activities of a GPU that are used: only those of prefill, because events of a trace slow down
// decoding.
constexpr std::string_view kOfGpu[] = {"activities.prefill.attention", "activities.prefill.ffn",
                                       "activities.prefill.experts"};

bool is_speed(std::string_view metric) {
  return std::ranges::find(kSpeeds, metric) != std::ranges::end(kSpeeds);
}

bool is_of_load(std::string_view metric) {
  return std::ranges::find(kOfLoad, metric) != std::ranges::end(kOfLoad);
}

bool is_activity(std::string_view metric) { return !is_speed(metric) && !is_of_load(metric); }

bool is_fitted(std::string_view metric, bool on_gpu) {
  const auto is_in = [&](const auto& list) {
    return std::ranges::find(list, metric) != std::ranges::end(list);
  };
  return is_speed(metric) || is_of_load(metric) || (on_gpu ? is_in(kOfGpu) : is_in(kOfCpu));
}

// True if a run tells something about the GPU: not if the host's memory or cores take part; but a
// cache that is copied to the GPU tells about the link.
bool tells_gpu(const ValidationRow& row, const Scenario& scenario) {
  if (row.regime == Regime::kResident) return true;
  const KvPolicy policy = scenario.kv.policy;
  return is_speed(row.metric) && (policy == KvPolicy::kStream || policy == KvPolicy::kPaged);
}

// True if a trace made a prompt much longer, as it does where kernels overlap: its times by
// activity tell nothing then.
bool is_slowed_by_trace(const validation::MeasuredRun& run) {
  constexpr double kMaxSlowdown = 1.1;
  double traced = 0;
  for (const ActivityRow& row : run.activities)
    if (row.phase == Phase::kPrefill) traced += row.measured_s;
  return traced * run.measured.prefill_tokens_per_s >
         kMaxSlowdown * double(run.scenario.workload.prompt_tokens);
}

// "activities.prefill" of "activities.prefill.ffn".
std::string phase_of(const std::string& metric) { return metric.substr(0, metric.rfind('.')); }

}  // namespace

void KeptRows::add(validation::MeasuredRun run) {
  const auto forecast = validation::replay(run);
  const bool takes_activities = !on_gpu_ || !is_slowed_by_trace(run);
  std::vector<const ValidationRow*> own;
  std::map<std::string, double> phase_s;
  for (const ValidationRow& row : forecast) {
    if (!is_fitted(row.metric, on_gpu_)) continue;
    if (on_gpu_ && !tells_gpu(row, run.scenario)) continue;
    if (!takes_activities && is_activity(row.metric)) continue;
    own.push_back(&row);
    phase_s[phase_of(row.metric)] += row.measured;
  }
  if (own.empty()) return;
  Run kept{std::move(run), {}, rows_.size()};
  for (const ValidationRow* row : own) {
    const double share = row->measured / phase_s.at(phase_of(row->metric));
    rows_.push_back({row->id, row->metric, is_activity(row->metric) ? std::sqrt(share) : 1.0});
    kept.metrics.push_back(row->metric);
  }
  configurations_.push_back(own.front()->what);
  runs_.push_back(std::move(kept));
}

Result<KeptRows> KeptRows::read(std::span<const std::string> files, const Catalogue& catalogue) {
  KeptRows out;
  for (const std::string& file : files) {
    const auto suite = validation::read_archive(file);
    if (!suite) return suite.error();
    if (&file == &files.front()) out.on_gpu_ = suite->on_gpu();
    if (suite->on_gpu() != out.on_gpu_)
      return bad_input(fmt::format("{}: runs of a CPU and of a GPU are fitted apart", file));
    for (const validation::ArchivedRun& kept : suite->runs) {
      if (!kept.skipped.empty() || !kept.times) continue;
      if (out.date_.empty()) out.date_ = kept.times->run_started.substr(0, 10);
      if (!(kept.times->machine_changed < kCalm)) continue;
      auto run = validation::measured_run(kept, catalogue);
      if (!run) return run.error();
      if (!out.runs_.empty() && run->scenario.runtime.id != out.profile().id)
        return bad_input(fmt::format("{}: \"{}\" ran on {}, others on {}", file, run->name,
                                     run->scenario.runtime.id, out.profile().id));
      out.add(*std::move(run));
    }
  }
  if (out.rows_.empty())
    return bad_input("no run tells anything of its device",
                     "runs in which the machine changed by a tenth are left out, and of a GPU's "
                     "what the host takes part in");
  return out;
}

std::vector<double> KeptRows::errors(std::size_t run, const RuntimeProfile& profile) const {
  const Run& own = runs_.at(run);
  validation::MeasuredRun changed = own.measured;
  changed.scenario.runtime = profile;
  std::vector<double> out;
  const auto forecast = validation::replay(changed);
  for (const std::string& metric : own.metrics)
    for (const ValidationRow& row : forecast)
      if (row.metric == metric) {
        out.push_back(std::log(row.predicted / row.measured));
        break;
      }
  return out.size() == own.metrics.size() ? out : std::vector<double>();
}

}  // namespace rigcast::calibration
