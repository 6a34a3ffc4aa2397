#pragma once
// Speeds and times by activity of kept runs, with their forecasts as a function of a profile.

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/catalogue/catalogue.hpp"
#include "validation/runs/replay.hpp"

namespace rigcast::calibration {

/// A run is used if the rates of the machine's memory or cores changed by less while it ran: a
/// share.
inline constexpr double kCalm = 0.1;

struct KeptRow {
  std::string run, metric;
  double weight = 1;  // activities of short time have small weights
};

class KeptRows {
 public:
  /// Reads runs that `rigcast validate --keep` left, from folders or packed files. It leaves out
  /// runs during which the machine changed, and of a GPU's runs those in which the host takes part.
  /// Errors: runs of different devices or runtimes; no runs left to fit.
  static Result<KeptRows> read(std::span<const std::string> files, const Catalogue& catalogue);

  bool on_gpu() const { return on_gpu_; }
  /// The profile of the runtime on which all of them ran.
  const RuntimeProfile& profile() const { return runs_.front().measured.scenario.runtime; }
  const std::vector<KeptRow>& rows() const { return rows_; }
  /// The names of the runs in a profile's `fitted_on`.
  const std::vector<std::string>& configurations() const { return configurations_; }
  /// The day of the first run: "2026-11-22".
  const std::string& date() const { return date_; }

  std::size_t run_count() const { return runs_.size(); }
  std::size_t row_count(std::size_t run) const { return runs_.at(run).metrics.size(); }
  std::size_t first_row(std::size_t run) const { return runs_.at(run).first_row; }
  /// log(forecast / measured) for the rows of one run; runs follow one another in the order of
  /// rows(). Empty: with these figures a row has no forecast.
  std::vector<double> errors(std::size_t run, const RuntimeProfile& profile) const;

 private:
  struct Run {
    validation::MeasuredRun measured;
    std::vector<std::string> metrics;
    std::size_t first_row = 0;
  };
  void add(validation::MeasuredRun run);

  bool on_gpu_ = false;
  std::vector<Run> runs_;
  std::vector<KeptRow> rows_;
  std::vector<std::string> configurations_;
  std::string date_;
};

}  // namespace rigcast::calibration
