#pragma once
// Fitted rows with their forecasts, as a table that `rigcast calibrate` leaves beside the profile.

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "calibration/fit/left_out.hpp"

namespace rigcast::calibration {

/// A measured speed and its errors. Errors are logarithms of forecast over measured speed.
struct LeftOutRow {
  std::string id, chip, rig, model, quant;
  Regime regime = Regime::kResident;
  bool deep = false;  // 8,192 tokens or more in the cache
  bool quantized_kv = false;
  bool ram_known = false;  // the RAM's bandwidth follows from what the source states
  SpeedMetric metric = SpeedMetric::kDecode;
  double measured = 0;          // in the metric's unit
  double fitted = 0;            // error of the fit on all rows
  double left_out = 0;          // error of the fit without the row's chip
  std::string family{};         // "ada+blackwell" for a set of them
  double family_left_out = 0;   // error of the fit without the chips of that family
  std::string source{};         // where it was published
  int year = 0;                 // of the build; 0: not known
  double fitted_speed() const;  // forecasts in the metric's unit
  double left_out_speed() const;
  double family_left_out_speed() const;
};

/// The rows of other people: dense runs of one machine would say the same many times.
std::vector<LeftOutRow> left_out_rows(const std::vector<Sample>& samples, const LeftOut& errors);

/// The same rows with each family in the place of its chips: what is computed by chip is by family.
std::vector<LeftOutRow> by_family(std::span<const LeftOutRow> rows);

/// A CSV with a header. `fitted`, `left_out` and `family_left_out` are forecasts in the metric's
/// unit.
std::string to_csv(std::span<const LeftOutRow> rows);
/// Reads such a file. Errors: it cannot be read, another header, a field that is none of its
/// column.
Result<std::vector<LeftOutRow>> read_left_out(const std::filesystem::path& file);

}  // namespace rigcast::calibration
