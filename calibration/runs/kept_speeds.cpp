#include "calibration/runs/kept_speeds.hpp"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>

#include "calibration/runs/own_kept_runs.hpp"
#include "core/scenario/chip_family.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "validation/runs/packed_runs.hpp"
#include "validation/runs/replay.hpp"

namespace rigcast::calibration {
namespace {

// The run's own row, without its speed.
ResolvedRun row_of(const std::string& id, const validation::MeasuredRun& ran) {
  auto scenario = std::make_shared<Scenario>(ran.scenario);
  if (!scenario->rig.gpus.empty() && !scenario->placement.gpu_layers) {
    scenario->placement.gpu_layers = ran.measured.placement.gpu_layers;
    scenario->placement.cpu_moe_layers = ran.measured.placement.cpu_moe_layers;
  }
  ResolvedRun row;
  row.measured.id = id;
  row.rig = scenario->rig.name;
  row.chip = chip_of(scenario->rig);
  row.regime = regime_of(*scenario, resolve_placement(*scenario));
  row.families = chip_families(scenario->rig, row.regime);
  row.slow_host = has_slow_host(scenario->rig, row.regime);
  row.ram_known = true;
  row.dense = true;
  row.deep = scenario->workload.depth >= kDeep;
  row.quantized_kv = info(scenario->kv.types.k).block_elements > 1;
  row.scenario = std::move(scenario);
  return row;
}

void add(const ResolvedRun& row, Metric metric, double value, KeptSpeeds& out) {
  if (!(value > 0)) return;
  out.runs.push_back(row);
  out.runs.back().measured.metric = metric;
  out.runs.back().measured.value = value;
}

}  // namespace

Result<KeptSpeeds> kept_speeds(std::span<const std::string> paths, const Catalogue& catalogue) {
  KeptSpeeds out;
  for (const std::string& path : paths) {
    const auto suite = validation::read_archive(path);
    if (!suite) return suite.error();
    for (const validation::ArchivedRun& kept : suite->runs) {
      const std::string id = fmt::format("{} \"{}\"", path, kept.run.name);
      std::string reason = useless(kept);
      const auto ran =
          reason.empty() ? std::optional(validation::measured_run(kept, catalogue)) : std::nullopt;
      if (ran && !*ran) reason = ran->error().message;
      if (!reason.empty()) {
        out.skipped.push_back({id, reason});
        continue;
      }
      const ResolvedRun row = row_of(id, **ran);
      add(row, Metric::kTg, (*ran)->measured.decode_tokens_per_s, out);
      add(row, Metric::kPp, (*ran)->measured.prefill_tokens_per_s, out);
    }
  }
  return out;
}

}  // namespace rigcast::calibration
