#pragma once
// Limits on errors of forecasts on chips that the fit has not seen.

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "calibration/accuracy.hpp"
#include "core/base/error.hpp"

namespace rigcast::calibration {

/// A limit for rows of one kind; errors are shares of the measured value.
struct LeftOutBar {
  std::string name;
  SpeedMetric metric = SpeedMetric::kDecode;
  std::vector<Regime> regimes;  // empty: every one
  bool deep = false;            // only rows with 8,192 tokens or more in the cache
  bool ram_known = false;       // only rows whose RAM bandwidth is stated
  bool of_sweep = false;        // rows of the one large sweep; false: of all other sources
  double median = 0, p90 = 0;   // what is aimed at
  double limit = 0;             // of the median: no change may exceed it
};

/// One source has a large part of all rows, of two models and one month, on which forecasts are
/// better than elsewhere: its rows are judged apart.
struct LeftOutBars {
  std::string sweep;  // as the rows' `source` begins; empty: no source is apart
  std::vector<LeftOutBar> bars;
};

/// `sweep`; [[left_out]]: `name`, `metric` ("tg_tps" or "pp_tps"), `median`, `p90`, `limit`; if
/// wanted `regimes`, `deep`, `ram_known`, `of_sweep`.
Result<LeftOutBars> read_left_out_bars(const std::filesystem::path& file);

/// Rows of the sweep, or of all other sources.
std::vector<LeftOutRow> of_sources(std::span<const LeftOutRow> rows, const std::string& sweep,
                                   bool of_sweep);

/// Quantiles of fewer chips say more about the chips than about the model.
inline constexpr int kChipsForABar = 8;

struct LeftOutVerdict {
  LeftOutBar bar;
  int chips = 0, rows = 0;
  ErrorQuantiles chips_equal, rows_equal;  // of at least one row
  bool applies = false;                    // there are enough chips
  bool reached = false;                    // by median and p90, chips counting equally
};

std::vector<LeftOutVerdict> judge(std::span<const LeftOutRow> rows, const LeftOutBars& bars);

/// A sentence for every bar whose median is above its limit, or which has no rows.
std::vector<std::string> exceeded(std::span<const LeftOutVerdict> verdicts);

}  // namespace rigcast::calibration
