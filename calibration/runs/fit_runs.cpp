#include "calibration/runs/fit_runs.hpp"

#include <ceres/ceres.h>

#include <algorithm>
#include <cmath>

#include "calibration/runs/forecast_errors.hpp"

namespace rigcast::calibration {
namespace {

// Sensitivities below this count as zero: SimGrid's clock continues from forecast to forecast,
// which changes their last digits.
constexpr double kNoise = 1e-7;

double scale_of(const KeptRow& row) { return row.weight / kRepeatNoise; }

// The forecasts that all residuals share, computed once for a point before Ceres evaluates
// residuals.
class SharedForecast : public ceres::EvaluationCallback {
 public:
  SharedForecast(const KeptRows& kept, const std::vector<Parameter>& parameters,
                 std::vector<double>& logs, int jobs)
      : kept_(kept), parameters_(parameters), logs_(logs), jobs_(jobs) {}

  void PrepareForEvaluation(bool derivatives, bool new_point) override {
    const bool is_there = !errors_.at.empty() && (!derivatives || !errors_.per_step.empty());
    if (!new_point && is_there) return;
    errors_ = forecast_errors(kept_, parameters_, logs_, derivatives, jobs_);
  }
  const KeptRows& kept() const { return kept_; }
  const ForecastErrors& errors() const { return errors_; }

 private:
  const KeptRows& kept_;
  const std::vector<Parameter>& parameters_;
  std::vector<double>& logs_;  // changed by Ceres
  int jobs_;
  ForecastErrors errors_;
};

// The residual of one row: its error in units of the repeat noise.
class RowCost : public ceres::CostFunction {
 public:
  RowCost(const SharedForecast& shared, std::size_t row, std::size_t parameters)
      : shared_(shared), row_(row), scale_(scale_of(shared.kept().rows()[row])) {
    mutable_parameter_block_sizes()->assign(1, int(parameters));
    set_num_residuals(1);
  }
  bool Evaluate(double const* const*, double* residuals, double** jacobians) const override {
    const ForecastErrors& errors = shared_.errors();
    if (errors.at.empty()) return false;
    residuals[0] = scale_ * errors.at[row_];
    for (std::size_t i = 0; jacobians && jacobians[0] && i < errors.per_step.size(); ++i)
      jacobians[0][i] = scale_ * errors.per_step[i][row_];
    return std::isfinite(residuals[0]);
  }

 private:
  const SharedForecast& shared_;
  std::size_t row_;
  double scale_;
};

// The residual of a prior: one parameter's distance from its likely value, in units of its spread.
class Distance : public ceres::CostFunction {
 public:
  Distance(const Parameter& p, std::size_t index, std::size_t parameters)
      : prior_(std::log(p.prior)), spread_(p.spread), index_(index), count_(parameters) {
    mutable_parameter_block_sizes()->assign(1, int(parameters));
    set_num_residuals(1);
  }
  bool Evaluate(double const* const* blocks, double* residuals, double** jacobians) const override {
    residuals[0] = (blocks[0][index_] - prior_) / spread_;
    if (jacobians && jacobians[0]) {
      std::fill_n(jacobians[0], count_, 0.0);
      jacobians[0][index_] = 1 / spread_;
    }
    return true;
  }

 private:
  double prior_, spread_;
  std::size_t index_, count_;
};

double rho(double residual) { return 2 * (std::sqrt(1 + residual * residual) - 1); }

// Changes `logs` to the optimum; false: there is none.
bool solve(SharedForecast& shared, const std::vector<Parameter>& parameters,
           std::vector<double>& logs) {
  ceres::Problem::Options options;
  options.evaluation_callback = &shared;
  ceres::Problem problem(options);
  const std::size_t n = parameters.size();
  for (std::size_t row = 0; row < shared.kept().rows().size(); ++row)
    problem.AddResidualBlock(new RowCost(shared, row, n), new ceres::SoftLOneLoss(1), logs.data());
  for (std::size_t i = 0; i < n; ++i) {
    problem.AddResidualBlock(new Distance(parameters[i], i, n), new ceres::SoftLOneLoss(1),
                             logs.data());
    problem.SetParameterLowerBound(logs.data(), int(i), std::log(parameters[i].least));
    problem.SetParameterUpperBound(logs.data(), int(i), std::log(parameters[i].most));
  }
  ceres::Solver::Options solver;
  solver.linear_solver_type = ceres::DENSE_QR;
  solver.max_num_iterations = kMaxSteps;
  solver.function_tolerance = kMinGain;
  solver.logging_type = ceres::SILENT;
  ceres::Solver::Summary summary;
  ceres::Solve(solver, &problem, &summary);
  return summary.IsSolutionUsable();
}

double cost_of(const KeptRows& kept, const std::vector<double>& errors,
               const std::vector<Parameter>& parameters, const std::vector<double>& logs) {
  double sum = 0;
  for (std::size_t row = 0; row < errors.size(); ++row)
    sum += rho(scale_of(kept.rows()[row]) * errors[row]);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    sum += rho((logs[i] - std::log(parameters[i].prior)) / parameters[i].spread);
  return sum / 2;
}

}  // namespace

Result<RunFit> fit_runs(const KeptRows& kept, const std::vector<Parameter>& all,
                        const std::vector<double>& start, int jobs) {
  const Error no_forecast{ErrorKind::kMachine, "a run that was forecast is forecast no more",
                          "are the profile's figures plausible?"};
  const auto first = forecast_errors(kept, all, start, true, jobs);
  if (first.at.empty()) return no_forecast;
  RunFit fit;
  std::vector<double> logs;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (std::ranges::none_of(first.per_step[i], [](double d) { return std::abs(d) > kNoise; })) {
      fit.untold.push_back(all[i].path);
      continue;
    }
    fit.parameters.push_back(all[i]);
    logs.push_back(start[i]);
  }
  fit.cost_before = cost_of(kept, first.at, fit.parameters, logs);
  SharedForecast shared(kept, fit.parameters, logs, jobs);
  if (!fit.parameters.empty() && !solve(shared, fit.parameters, logs))
    return Error{ErrorKind::kMachine, "the fit found no solution", no_forecast.hint};
  fit.errors = forecast_errors(kept, fit.parameters, logs, false, jobs).at;
  if (fit.errors.empty()) return no_forecast;
  fit.cost = cost_of(kept, fit.errors, fit.parameters, logs);
  for (const double log : logs) fit.values.push_back(std::exp(log));
  return fit;
}

}  // namespace rigcast::calibration
