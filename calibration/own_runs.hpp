#pragma once
// Correction of a rig's forecasts by a few runs of the user's own machine.

#include <filesystem>
#include <map>
#include <memory>
#include <set>
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

/// Runs of one's own machine, as scenarios of the rig that is to be corrected.
struct RunsOfRig {
  std::vector<ResolvedRun> runs;
  std::vector<SkippedRun> skipped;
  std::set<std::string> kept;      // ids of runs that `rigcast validate` kept, also of skipped ones
  std::vector<std::string> files;  // names of the files or folders that they are from
};

struct OwnRuns {
  std::vector<ComparedRun> runs;
  std::vector<SkippedRun> skipped;
  int kept = 0, kept_used = 0;                    // of `rigcast validate`: all, and those in `runs`
  std::map<std::string, Correction> corrections;  // by runtime
  std::filesystem::path file;                     // the file to which they were written
};

/// The file of a rig of the catalogue, or a rig file; empty: the rig of one's own that is called
/// "this". Errors: a rig without a file.
Result<std::filesystem::path> rig_to_correct(const std::string& rig, const Catalogue& catalogue);

/// The runs of a file (csv, json or jsonl), taken to be of that rig.
Result<RunsOfRig> read_own_runs(const std::string& file, const std::filesystem::path& rig,
                                const Catalogue& catalogue);

/// Compares runs with forecasts of their rig, and writes the correction to `output`, or, if that is
/// empty, next to the rig's file. Errors: no run that can be forecast.
Result<OwnRuns> correct_rig(const RunsOfRig& runs, const std::filesystem::path& rig,
                            const std::filesystem::path& output);

/// JSON of the schema "rigcast.own_runs/1".
std::string to_json(const OwnRuns& own);
/// Text for users: every run, then the correction of each runtime's speeds.
std::string to_text(const OwnRuns& own);

}  // namespace rigcast::calibration
