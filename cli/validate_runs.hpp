#pragma once
// Forecasts that are written down, then run: the scenario's, or those of a suite.

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "cli/scenario_flags.hpp"
#include "core/catalogue/catalogue.hpp"
#include "validation/validation.hpp"

namespace rigcast::cli {

struct RunsOptions {
  ScenarioFlags flags;
  std::string keep = "rigcast-validation";
  std::string scratch;
  std::vector<std::string> replay;  // folders
  std::string suite;
  std::string device = "auto";
  int repeat = 3;
  int time_limit = 600;  // seconds
  bool file = false;
  bool resume = false;

  void add_to(CLI::App& verb);
};

/// Measures the machine, forecasts, writes the forecast down, runs, and compares: for every run of
/// the suite, or for the scenario. Where the machine itself changed meanwhile, again. kMachine
/// where a suite of GPUs finds none, or it no longer answers.
Result<Validation> validate_runs(const RunsOptions& options, const Catalogue& catalogue);

/// What was kept of such validations, forecast anew: nothing is run.
Result<Validation> replay_runs(const RunsOptions& options, const Catalogue& catalogue);

}  // namespace rigcast::cli
