#include "validation/runs/forecast_notes.hpp"

#include <fmt/format.h>

#include "validation/runs/local_machine.hpp"

namespace rigcast::validation {

std::vector<std::string> forecast_notes(const SuiteRun& run, const Report& forecast,
                                        bool of_server) {
  std::vector<std::string> out = forecast.warnings;
  const Scenario& s = *forecast.scenario;
  if (names_a_rig(run.scenario))
    out.push_back(
        "the rig was named, not probed: where it is not this machine, the run is of another one");
  if (s.runtime.id != "llama.cpp") return out;
  if (!s.settings.build_year)
    out.push_back(
        "the build is not known: forecast as a new one, unless --build YYYY-MM says which");
  if (of_server)
    out.push_back(
        fmt::format("the server does not tell its flags: forecast with {} layers on a GPU, a {} "
                    "cache, {} threads, -ub {}, -fa {}; name others as they were given to it",
                    forecast.placement.gpu_layers, info(s.kv.types.k).name, s.settings.threads,
                    s.settings.ubatch, s.settings.flash_attention ? "on" : "off"));
  return out;
}

}  // namespace rigcast::validation
