#include "cli/calibrate_command.hpp"

#include <fmt/format.h>

#include <optional>
#include <set>
#include <vector>

#include "calibration/runs/own_kept_runs.hpp"
#include "core/catalogue/compose_rig.hpp"
#include "engine/backends/backend.hpp"
#include "planner/commands.hpp"
#include "validation/runs/local_machine.hpp"
#include "validation/runs/packed_runs.hpp"
#include "validation/runs/replay.hpp"

namespace rigcast::cli {
namespace {

// The rig that a run names, "" for this machine as it was probed; nullopt: parts, which have no
// file.
std::optional<std::string> rig_of(const TomlDocument& run) {
  if (!validation::names_a_rig(run)) return "";
  const std::string name = run.root().table("rig").text_or("name", "");
  if (name.empty()) return std::nullopt;
  return name == kThisMachine ? "" : name;
}

// The rigs of the runs of llama.cpp that say how fast their machine is.
std::set<std::string> rigs_of(const validation::ArchivedSuite& suite, const Catalogue& catalogue) {
  std::set<std::string> rigs;
  for (const validation::ArchivedRun& kept : suite.runs) {
    if (!calibration::useless(kept).empty()) continue;
    const auto run = validation::measured_run(kept, catalogue);
    if (!run || run->scenario.runtime.id != "llama.cpp") continue;
    if (const auto rig = rig_of(kept.run.scenario)) rigs.insert(*rig);
  }
  return rigs;
}

bool corrects(const std::string& kept, const std::string& rig, const Catalogue& catalogue) {
  const auto file = calibration::rig_to_correct(rig, catalogue);
  if (!file) return false;
  const auto runs = calibration::own_runs_of(std::vector{kept}, *file, catalogue);
  return runs && !runs->runs.empty();
}

}  // namespace

std::string calibrate_command(const std::filesystem::path& kept, const Catalogue& catalogue) {
  const auto suite = validation::read_archive(kept);
  if (!suite) return {};
  const auto rigs = rigs_of(*suite, catalogue);
  if (rigs.size() != 1) return {};
  const std::string& rig = *rigs.begin();
  std::vector<std::string> words{"rigcast", "calibrate", "--own", kept.string()};
  if (!rig.empty()) words.insert(words.end(), {"--rig", rig});
  if (corrects(kept.string(), rig, catalogue)) return planner::shell_text(words);
  // A probe would find the GPU, which these runs did not use.
  const bool without_gpu = !suite->on_gpu() && engine::built_in_backends().usable_gpu();
  if (!rig.empty() || without_gpu) return {};
  words.insert(words.end(), {"--rig", "my-rig.toml"});
  return "rigcast probe -o my-rig.toml && " + planner::shell_text(words);
}

}  // namespace rigcast::cli
