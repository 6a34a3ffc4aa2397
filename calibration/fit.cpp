#include "calibration/fit.hpp"

#include <ceres/ceres.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace rigcast::calibration {
namespace {

// Typical error of a good forecast of a well-documented run: the spread of equal runs by different
// people.
constexpr double kDecodeSpread = 0.08;
constexpr double kPrefillSpread = 0.10;
// Errors beyond this number of spreads are outliers: the run's settings are probably not as stated.
constexpr double kOutlier = 2.0;
constexpr double kStep = 1e-4;  // step of a logarithm, for derivatives

class SampleCost : public ceres::CostFunction {
 public:
  explicit SampleCost(const Sample& sample) : sample_(sample) {
    mutable_parameter_block_sizes()->assign(sample.depends_on().size(), 1);
    set_num_residuals(1);
    const bool decode = sample.run().measured.metric == Metric::kTg;
    scale_ = sample.weight / (decode ? kDecodeSpread : kPrefillSpread);
  }

  bool Evaluate(double const* const* blocks, double* residuals, double** jacobians) const override {
    const std::size_t n = sample_.depends_on().size();
    std::vector<double> values(n);
    for (std::size_t k = 0; k < n; ++k) values[k] = *blocks[k];
    const double at = sample_.error(values.data());
    residuals[0] = scale_ * at;
    for (std::size_t k = 0; jacobians && k < n; ++k) {
      if (!jacobians[k]) continue;
      values[k] += kStep;
      jacobians[k][0] = scale_ * (sample_.error(values.data()) - at) / kStep;
      values[k] -= kStep;
    }
    return std::isfinite(at);
  }

 private:
  const Sample& sample_;
  double scale_ = 1;
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
           const std::vector<Sample>& samples, std::vector<double>& values,
           const FitOptions& options) {
  add_priors(problem, parameters, values);
  for (const Sample& sample : samples) {
    const bool left_out = options.leaves_out && options.leaves_out(sample.run());
    if (left_out || sample.depends_on().empty()) continue;
    std::vector<double*> blocks;
    for (const int i : sample.depends_on()) blocks.push_back(&values[std::size_t(i)]);
    problem.AddResidualBlock(new SampleCost(sample), new ceres::CauchyLoss(kOutlier), blocks);
  }
}

}  // namespace

std::vector<double> fit(const std::vector<Parameter>& parameters,
                        const std::vector<Sample>& samples, const std::vector<double>& start,
                        const FitOptions& options) {
  std::vector<double> values = start;
  ceres::Problem problem;
  build(problem, parameters, samples, values, options);
  ceres::Solver::Options solver;
  solver.linear_solver_type = ceres::SPARSE_NORMAL_CHOLESKY;
  solver.max_num_iterations = options.iterations;
  solver.function_tolerance = 1e-8;
  solver.num_threads = 1;  // samples keep state, and a fixed order of sums makes results
                           // deterministic
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
  std::map<std::string, int> rows;
  for (const Sample& s : samples) ++rows[s.run().chip];
  double sum = 0;
  for (Sample& s : samples) {
    s.weight = std::pow(double(rows.at(s.run().chip)), -kExponent);
    sum += s.weight;
  }
  for (Sample& s : samples) s.weight *= double(samples.size()) / sum;
}

}  // namespace rigcast::calibration
