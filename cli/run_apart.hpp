#pragma once
// A kept run, executed in a process of its own: what a driver keeps of models that ran before it is
// no part of what it takes, and what ends it ends no other.

#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/kept_scenario.hpp"
#include "core/catalogue/catalogue.hpp"
#include "validation/validation.hpp"

namespace rigcast::cli {

/// The other process's verb, which `rigcast --help` does not list.
inline constexpr const char* kApartVerb = "execute-kept";

/// What that process is told.
struct ApartOptions {
  std::string folder;     // of the validation
  std::size_t index = 0;  // of the run in it
  HowRun how;
  std::string weights;            // a file to start from; empty: as the scenario says
  std::optional<int> gpu_layers;  // absent: as the scenario says, or as many as fit
  int time_limit = 600;           // seconds

  void add_to(CLI::App& verb);
  /// As a command line of kApartVerb, which reads them by `add_to`.
  std::vector<std::string> words() const;
};

/// What it tells.
struct ApartRun {
  std::string measured;                 // the JSON of its report
  std::vector<ActivityRow> activities;  // `measured_s`
  std::optional<std::string> busy;      // as Executed has it
  double traced_slowdown = 0;
  BytesPerSecond ceiling;  // of memory, right after the run
};

/// Waits for it. An interrupt is handed on. Errors: those of execute; kMachine where the process
/// cannot be made, or ended before it told anything.
Result<ApartRun> run_apart(const ApartOptions& options);

/// The other process's part: executes, and writes what run_apart reads to standard output.
int executed_for_another(const ApartOptions& options, const Catalogue& catalogue);

}  // namespace rigcast::cli
