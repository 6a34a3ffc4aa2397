#pragma once
// The machine that a campaign runs on, as measured before its runs.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/catalogue/catalogue.hpp"
#include "engine/backends/backend.hpp"
#include "probe/machine.hpp"
#include "validation/runs/suite.hpp"

namespace rigcast::validation {

class ProbedMachine {
 public:
  /// `scratch`: a folder for the disk's test file.
  ProbedMachine(const engine::EngineBackend& backend, const Catalogue& catalogue,
                std::filesystem::path scratch)
      : backend_(backend), catalogue_(catalogue), scratch_(std::move(scratch)) {}

  /// The rig in TOML, for a run that names none; empty for one that does. All of it is measured the
  /// first time; then the cores before every run that they have a part in, and, for our own engine,
  /// the disk before those that start from it: that is what neighbours change.
  Result<std::string> rig_for(const SuiteRun& run, bool with_engine);

  /// How much the cores have changed since: a share of their rates; nullopt where that cannot be
  /// told, or where they have no part in the run. `memory`: its bandwidth right after a run with so
  /// many `threads`, if that was measured.
  std::optional<double> change_since(const SuiteRun& run, int threads, BytesPerSecond memory) const;

  /// What its first GPU reads; nullopt: it was not measured.
  std::optional<BytesPerSecond> vram_ceiling() const;

 private:
  bool host_takes_part(const SuiteRun& run) const;

  const engine::EngineBackend& backend_;
  const Catalogue& catalogue_;
  std::filesystem::path scratch_;
  std::optional<probe::Machine> machine_;
};

}  // namespace rigcast::validation
