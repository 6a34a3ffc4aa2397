#include "validation/runs/archived_scenario.hpp"

#include <string>
#include <utility>
#include <vector>

#include "sim/simulate.hpp"
#include "validation/runs/local_machine.hpp"

namespace rigcast::validation {

Result<Scenario> scenario_on(const TomlDocument& run, const std::string& rig,
                             const Catalogue& catalogue) {
  TomlDocument document = run.clone();
  std::vector<std::pair<const char*, std::string>> values;
  if (!names_a_rig(run)) {
    const auto probed = TomlDocument::parse(rig, "the rig as probed");
    if (!probed) return probed.error();
    document.merge_table_defaults("rig", *probed);
    document.erase("rig.name");  // of no rig that the catalogue has
  }
  if (!run.has("workload.start")) values.emplace_back("workload.start", "\"resident\"");
  // A limit is of what the engine takes, which is not the context, nor what others take.
  if (run.has("rig.vram_capacity"))
    for (const char* other : {"rig.gpu_context", "rig.vram_reserved"})
      if (!run.has(other)) values.emplace_back(other, "\"0 MiB\"");
  for (const auto& [key, value] : values)
    if (auto error = document.set(key, value, "validate")) return *error;
  auto scenario = make_scenario_here(document, catalogue);
  // llama-bench has a cache for the tokens that it measures, and no more; so has transformers.
  if (scenario && (scenario->runtime.id == "llama.cpp" ||
                   scenario->runtime.rules == RuntimeRules::kTransformers))
    scenario->workload.context = scenario->workload.last_position() + 1;
  return scenario;
}

ExecuteOptions execution(const SuiteRun& run, const Scenario& scenario,
                         const ExecutionSettings& how) {
  ExecuteOptions out;
  out.backend = how.backend;
  out.synthetic = !scenario.model_file;
  out.repeat = run.repeat.value_or(how.repeat);
  out.trace = true;
  out.traced_tokens = sim::kTracedTokens + 1;  // the first is the prompt's
  if (!how.backend->is_gpu()) return out;
  if (run.scenario.has("rig.vram_capacity") && !scenario.rig.gpus.empty())
    out.vram_limit = scenario.rig.gpus.front().memory.value;
  if (how.vram_ceiling.value > 0) out.vram_ceiling = how.vram_ceiling;
  return out;
}

}  // namespace rigcast::validation
