#pragma once
// The folder of a validation: rigs, forecasts and runs, in which it can be gone on with.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "engine/backends/backend.hpp"
#include "validation/runs/suite.hpp"

namespace rigcast::validation {

/// When and how often a run was tried.
struct RunTimes {
  std::string version;                        // of rigcast
  std::string forecast_written, run_started;  // "2026-11-22T04:26:12Z"
  int tries = 0;
  double machine_changed = 0;  // of its cores' and memory's rates, while it ran: a share
};

/// Everything that is kept of a run.
struct ArchivedRun {
  SuiteRun run;
  std::string rig;                             // TOML, as probed before it; empty: it names one
  std::string forecast, measured, activities;  // JSON; empty: is not there
  std::optional<RunTimes> times;
  std::string skipped;  // why there are no figures of it; empty: there are
};

struct ArchivedSuite {
  const engine::EngineBackend* backend = &engine::cpu_backend();
  std::vector<ArchivedRun> runs;

  bool on_gpu() const { return backend->is_gpu(); }
};

class RunArchive {
 public:
  explicit RunArchive(std::filesystem::path folder) : folder_(std::move(folder)) {}

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path suite_file() const { return folder_ / "suite.toml"; }
  /// "03.forecast.json" of the third run, whose `index` is 2.
  std::filesystem::path part(std::size_t index, const char* what) const;
  std::optional<std::string> text(std::size_t index, const char* what) const;
  std::optional<Error> write(std::size_t index, const char* what, const std::string& text) const;

  /// Writes down what can be forecast anew from this folder alone. `resume`: what it holds has to
  /// be of the same suite, and stays.
  std::optional<Error> begin(const Suite& suite, bool resume);

  /// Reads the whole archive.
  Result<ArchivedSuite> read() const;

  /// True if the run's measured report is in the archive.
  bool was_run(std::size_t index) const;
  /// Why it is not to be tried again; nullopt: it was run, or not begun, or interrupted.
  std::optional<std::string> failure(std::size_t index) const;
  /// Before a run: what stays if the program does not survive it.
  std::optional<Error> begin_run(std::size_t index) const;
  /// After it, with a row of times.csv.
  std::optional<Error> end_run(std::size_t index, const std::string& times);
  std::optional<Error> fail_run(std::size_t index, const std::string& why) const;
  /// Removes a run's files, as if it had not begun.
  void discard_run(std::size_t index) const;

 private:
  std::optional<Error> is_of(const Suite& suite) const;

  std::filesystem::path folder_;
  std::string times_;  // of times.csv
};

}  // namespace rigcast::validation
