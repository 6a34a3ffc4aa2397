#pragma once
// Correction of a rig's forecasts by a few runs of the user's own machine.

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/catalogue/catalogue.hpp"
#include "core/hardware/rig.hpp"
#include "measurements/resolve.hpp"
#include "validation/validation.hpp"

namespace rigcast::calibration {

/// A run and its forecasts in tokens per second, without the correction and with it.
struct ComparedRun {
  ResolvedRun run;
  std::shared_ptr<const Scenario> scenario;  // without a correction
  PredictedFigure before, after;

  const std::string& runtime() const { return scenario->runtime.id; }
  bool is_decode() const { return run.measured.metric == Metric::kTg; }
  std::string what() const;  // "llama-3.1-8b Q4_K_M @ d4096"
};

struct OwnRuns {
  std::vector<ComparedRun> runs;
  std::vector<SkippedRun> skipped;
  std::map<std::string, Correction> corrections;  // by runtime
  std::filesystem::path file;                     // the file to which they were written
};

/// Compares the runs of a file (csv, json or jsonl) with a rig of the catalogue, or a rig file, and
/// writes the correction to `output`, or, if that is empty, next to the rig's file. Errors: a rig
/// without a file; no run that can be forecast.
Result<OwnRuns> correct_rig(const std::string& runs, const std::string& rig,
                            const std::filesystem::path& output, const Catalogue& catalogue);

/// JSON of the schema "rigcast.own_runs/1".
std::string to_json(const OwnRuns& own);
/// Text for users: every run, then the correction of each runtime's speeds.
std::string to_text(const OwnRuns& own);

}  // namespace rigcast::calibration
