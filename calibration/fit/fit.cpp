#include "calibration/fit/fit.hpp"

#include <ceres/ceres.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>

#include "calibration/fit/in_parallel.hpp"

namespace rigcast::calibration {
namespace {

// Typical error of a good forecast of a well-documented run: the spread of equal runs by different
// people.
constexpr double kDecodeSpread = 0.08;
constexpr double kPrefillSpread = 0.10;
// Errors beyond this number of spreads are outliers: the run's settings are probably not as stated.
constexpr double kOutlier = 2.0;
constexpr double kStep = 1e-4;  // step of a logarithm, for derivatives

// The error of a sample in units of its spread, and its derivatives by the parameters on which it
// depends.
struct Evaluated {
  double residual = 0;
  std::vector<double> by;
};

// Evaluates all samples before the solver asks for any: with many threads, because samples are
// independent, and the solver then sums in a fixed order.
class Evaluation : public ceres::EvaluationCallback {
 public:
  Evaluation(const std::vector<double>& values, int threads) : values_(values), threads_(threads) {}

  std::size_t add(const Sample& sample) {
    const bool decode = sample.run().measured.metric == Metric::kTg;
    scales_.push_back(sample.weight / (decode ? kDecodeSpread : kPrefillSpread));
    samples_.push_back(&sample);
    results_.push_back({0, std::vector<double>(sample.depends_on().size())});
    return samples_.size() - 1;
  }
  const Evaluated& result(std::size_t i) const { return results_[i]; }

  void PrepareForEvaluation(bool jacobians, bool new_point) override {
    if (!new_point && (!jacobians || has_jacobians_)) return;
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      for (std::size_t i = next++; i < samples_.size(); i = next++) evaluate(i, jacobians);
    };
    in_parallel(threads_, work);
    has_jacobians_ = jacobians;
  }

 private:
  void evaluate(std::size_t i, bool jacobians) {
    const Sample& sample = *samples_[i];
    const std::vector<int>& on = sample.depends_on();
    std::vector<double> at(on.size());
    for (std::size_t k = 0; k < on.size(); ++k) at[k] = values_[std::size_t(on[k])];
    const double error = sample.error(at.data());
    results_[i].residual = scales_[i] * error;
    for (std::size_t k = 0; jacobians && k < on.size(); ++k) {
      const double value = at[k];
      at[k] += kStep;
      results_[i].by[k] = scales_[i] * (sample.error(at.data()) - error) / kStep;
      at[k] = value;
    }
  }

  const std::vector<double>& values_;  // into which the solver writes
  int threads_;
  bool has_jacobians_ = false;
  std::vector<const Sample*> samples_;
  std::vector<double> scales_;
  std::vector<Evaluated> results_;
};

class SampleCost : public ceres::CostFunction {
 public:
  SampleCost(const Evaluation& all, std::size_t index, std::size_t parameters)
      : all_(all), index_(index) {
    mutable_parameter_block_sizes()->assign(parameters, 1);
    set_num_residuals(1);
  }

  bool Evaluate(double const* const*, double* residuals, double** jacobians) const override {
    const Evaluated& own = all_.result(index_);
    residuals[0] = own.residual;
    for (std::size_t k = 0; jacobians && k < own.by.size(); ++k)
      if (jacobians[k]) jacobians[k][0] = own.by[k];
    return std::isfinite(own.residual);
  }

 private:
  const Evaluation& all_;
  std::size_t index_;
};

// The residual of a prior: a parameter's distance from the value that its parent makes likely, in
// units of its spread. Logarithms.
struct Distance {
  double ratio, spread;
  template <class T>
  bool operator()(const T* own, const T* parent, T* residual) const {
    residual[0] = (own[0] - parent[0] - ratio) / spread;
    return true;
  }
};
struct DistanceFromPrior {
  double prior, spread;
  template <class T>
  bool operator()(const T* own, T* residual) const {
    residual[0] = (own[0] - prior) / spread;
    return true;
  }
};

void add_priors(ceres::Problem& problem, const std::vector<Parameter>& parameters,
                std::vector<double>& values) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& p = parameters[i];
    if (p.parent >= 0) {
      problem.AddResidualBlock(new ceres::AutoDiffCostFunction<Distance, 1, 1, 1>(
                                   new Distance{std::log(p.ratio), p.spread}),
                               nullptr, &values[i], &values[std::size_t(p.parent)]);
    } else {
      problem.AddResidualBlock(new ceres::AutoDiffCostFunction<DistanceFromPrior, 1, 1>(
                                   new DistanceFromPrior{std::log(p.prior), p.spread}),
                               nullptr, &values[i]);
    }
    problem.SetParameterLowerBound(&values[i], 0, std::log(p.least));
    problem.SetParameterUpperBound(&values[i], 0, std::log(p.most));
  }
}

}  // namespace

std::vector<double> likely(const std::vector<Parameter>& parameters) {
  std::vector<double> values;
  for (const Parameter& p : parameters)
    values.push_back(std::clamp(std::log(p.prior), std::log(p.least), std::log(p.most)));
  return values;
}

namespace {

// Builds the problem at `values`, to which it keeps a reference.
void build(ceres::Problem& problem, const std::vector<Parameter>& parameters,
           const std::vector<Sample>& samples, std::vector<double>& values, Evaluation& evaluation,
           const FitOptions& options) {
  add_priors(problem, parameters, values);
  for (const Sample& sample : samples) {
    const bool left_out = options.leaves_out && options.leaves_out(sample.run());
    if (left_out || sample.depends_on().empty()) continue;
    std::vector<double*> blocks;
    for (const int i : sample.depends_on()) blocks.push_back(&values[std::size_t(i)]);
    problem.AddResidualBlock(new SampleCost(evaluation, evaluation.add(sample), blocks.size()),
                             new ceres::CauchyLoss(kOutlier), blocks);
  }
}

}  // namespace

std::vector<double> fit(const std::vector<Parameter>& parameters,
                        const std::vector<Sample>& samples, const std::vector<double>& start,
                        const FitOptions& options) {
  std::vector<double> values = start;
  Evaluation evaluation(values, options.threads);
  ceres::Problem::Options of_problem;
  of_problem.evaluation_callback = &evaluation;
  ceres::Problem problem(of_problem);
  build(problem, parameters, samples, values, evaluation, options);
  ceres::Solver::Options solver;
  solver.linear_solver_type = ceres::SPARSE_NORMAL_CHOLESKY;
  solver.max_num_iterations = options.iterations;
  solver.function_tolerance = options.tolerance;
  solver.num_threads = 1;  // a fixed order of sums makes results deterministic
  solver.logging_type = ceres::SILENT;
  ceres::Solver::Summary summary;
  ceres::Solve(solver, &problem, &summary);
  if (!summary.IsSolutionUsable()) return {};
  return values;
}

void weigh(std::vector<Sample>& samples) {
  // The exponent is between one vote per row and one per chip: rows of one chip share most of their
  // error.
  constexpr double kExponent = 0.35;
  // Dense runs are on probed machines, repeated, and of settings that are all known: equal ones
  // differ by a third of kDecodeSpread.
  constexpr double kDense = 3;
  std::map<std::string, int> rows;
  for (const Sample& s : samples) ++rows[s.run().chip];
  double sum = 0;
  for (Sample& s : samples) {
    s.weight = std::pow(double(rows.at(s.run().chip)), -kExponent);
    if (s.run().dense) s.weight *= kDense;
    sum += s.weight;
  }
  for (Sample& s : samples) s.weight *= double(samples.size()) / sum;
}

}  // namespace rigcast::calibration
