#pragma once
// Fits a paged server's profile to measured loads, and says what the fit is worth on chips that it
// has not seen.

#include <functional>
#include <string>
#include <vector>

#include "calibration/fit/parameters.hpp"
#include "calibration/serving/served_load.hpp"

namespace rigcast::calibration {

/// Errors of one run: with all chips in the fit, and with its own left out.
struct FittedLoad {
  ResolvedServing run;
  LoadErrors fitted, left_out;
};

struct ServerFit {
  std::vector<Parameter> parameters;
  std::vector<double> values;
  std::vector<int> rows;  // figures that each parameter moves
  std::vector<FittedLoad> loads;
  int chips = 0;
};

/// Robust least squares of logarithms over throughput, TPOT and TTFT at 50 %; chips count equally,
/// however many rows they have. Each step is the solution of the linearised problem; a chip is left
/// out by the last one's derivatives. `jobs`: threads. `progress`: after each step, and at the end
/// with an empty text. Error: there is no solution.
Result<ServerFit> fit_server(const RuntimeProfile& profile, std::vector<ResolvedServing> runs,
                             int jobs, const std::function<void(const std::string&)>& progress);

/// What an earlier fit is worth, for when forecasts or runs have changed since: figures stay those
/// of `fitted`, errors and derivatives are computed anew, as if its steps had ended there.
/// `profile`: without fitted figures; its own are likely where a chip is left out.
ServerFit judge_server_fit(const RuntimeProfile& profile, const RuntimeProfile& fitted,
                           std::vector<ResolvedServing> runs, int jobs,
                           const std::function<void(const std::string&)>& progress);

}  // namespace rigcast::calibration
