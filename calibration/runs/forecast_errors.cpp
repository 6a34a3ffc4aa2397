#include "calibration/runs/forecast_errors.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>
#include <string>

#include "sim/workers.hpp"

namespace rigcast::calibration {
namespace {

// The step of a logarithm for finite differences. Forecasts have kinks, at which a shorter step
// would stop the fit.
constexpr double kStep = 0.02;

// The step, in the direction away from the bound.
double step_of(const Parameter& p, double log) {
  return log + kStep > std::log(p.most) ? -kStep : kStep;
}

std::string bytes_of(const std::vector<double>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)};
}
std::vector<double> numbers_of(const std::string& bytes) {
  std::vector<double> out(bytes.size() / sizeof(double));
  std::memcpy(out.data(), bytes.data(), out.size() * sizeof(double));
  return out;
}

// The errors of one run, then its errors with each parameter changed by its step. Empty if a
// forecast is missing.
std::vector<double> errors_of_run(const KeptRows& kept, std::size_t run, RuntimeProfile profile,
                                  const std::vector<Parameter>& parameters,
                                  const std::vector<double>& logs, bool derivatives) {
  std::vector<double> out = kept.errors(run, profile);
  const std::size_t rows = out.size();
  for (std::size_t i = 0; derivatives && i < parameters.size(); ++i) {
    double* const figure = parameters[i].in(profile);
    const double value = *figure;
    *figure = std::exp(logs[i] + step_of(parameters[i], logs[i]));
    const auto moved = kept.errors(run, profile);
    *figure = value;
    if (moved.size() != rows) return {};
    out.insert(out.end(), moved.begin(), moved.end());
  }
  return out;
}

// Stores the results of one run at its rows.
void place(std::span<const double> answer, std::size_t first_row, std::size_t rows,
           const std::vector<Parameter>& parameters, const std::vector<double>& logs,
           ForecastErrors& out) {
  for (std::size_t r = 0; r < rows; ++r) {
    out.at[first_row + r] = answer[r];
    for (std::size_t i = 0; i < out.per_step.size(); ++i)
      out.per_step[i][first_row + r] =
          (answer[(i + 1) * rows + r] - answer[r]) / step_of(parameters[i], logs[i]);
  }
}

}  // namespace

ForecastErrors forecast_errors(const KeptRows& kept, const std::vector<Parameter>& parameters,
                               const std::vector<double>& logs, bool derivatives, int jobs) {
  RuntimeProfile profile = kept.profile();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    *parameters[i].in(profile) = std::exp(logs[i]);
  ForecastErrors out;
  out.at.resize(kept.rows().size());
  if (derivatives) out.per_step.assign(parameters.size(), std::vector<double>(out.at.size()));

  std::vector<std::int64_t> runs(kept.run_count());
  std::iota(runs.begin(), runs.end(), 0);
  bool all_there = true;
  sim::Pieces how;
  how.work = [&](std::int64_t run) {
    return bytes_of(errors_of_run(kept, std::size_t(run), profile, parameters, logs, derivatives));
  };
  how.take = [&](std::int64_t run, const std::string& bytes) {
    const auto answer = numbers_of(bytes);
    const std::size_t rows = kept.row_count(std::size_t(run));
    all_there = answer.size() == rows * (derivatives ? parameters.size() + 1 : 1);
    if (all_there) place(answer, kept.first_row(std::size_t(run)), rows, parameters, logs, out);
    return all_there;
  };
  sim::run_pieces(runs, jobs, how);
  return all_there ? out : ForecastErrors{};
}

}  // namespace rigcast::calibration
