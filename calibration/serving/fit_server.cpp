#include "calibration/serving/fit_server.hpp"

#include <ceres/ceres.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <set>

#include "calibration/fit/fit.hpp"
#include "calibration/fit/in_parallel.hpp"
#include "calibration/serving/server_parameters.hpp"

namespace rigcast::calibration {
namespace {

constexpr int kRequests = 300;  // for medians; latencies of 99 % are not fitted
constexpr int kMaxSteps = 8;
constexpr double kMinGain = 0.003;  // of the cost, with which another step is worth its minutes
constexpr double kStep = 0.05;      // of a logarithm, for derivatives: simulated loads have jumps
constexpr double kMaxMove = 0.5;    // of a logarithm in one step, for which derivatives may hold
constexpr double kSpread = 0.10;    // of equal runs by different people
constexpr double kOutlier = 2.0;    // spreads

bool is_fitted(LoadFigure figure) {
  return figure != LoadFigure::kTpot99 && figure != LoadFigure::kTtft99;
}

// One figure of one run.
struct Row {
  std::size_t run = 0;
  LoadFigure figure = LoadFigure::kTpot;
  double weight = 1;
  double error = 0;
  std::vector<double> by;  // derivatives by the logarithms of the parameters
};

RuntimeProfile with_values(const RuntimeProfile& profile, const std::vector<Parameter>& parameters,
                           const std::vector<double>& logs) {
  RuntimeProfile p = profile;
  for (std::size_t i = 0; i < parameters.size(); ++i) *parameters[i].in(p) = std::exp(logs[i]);
  GpuEfficiency& gpu = p.gpu.at("default");
  gpu.kv_read.value = kv_read_beside(profile, gpu.read.value);
  return p;
}

std::vector<double> logs_of(RuntimeProfile profile, const std::vector<Parameter>& parameters) {
  std::vector<double> logs;
  for (const Parameter& p : parameters)
    logs.push_back(std::log(std::clamp(*p.in(profile), p.least, p.most)));
  return logs;
}

// At most so many runs of each chip, evenly among all that it has: chips count equally, and more of
// one cost minutes and tell little.
std::vector<ResolvedServing> sample_of(const std::vector<ResolvedServing>& runs) {
  constexpr std::size_t kMaxOfChip = 16;
  std::map<std::string, std::vector<const ResolvedServing*>> by_chip;
  for (const ResolvedServing& run : runs) by_chip[run.chip].push_back(&run);
  std::vector<ResolvedServing> out;
  for (const auto& [chip, own] : by_chip) {
    const std::size_t n = std::min(own.size(), kMaxOfChip);
    for (std::size_t i = 0; i < n; ++i) out.push_back(*own[i * own.size() / n]);
  }
  return out;
}

std::set<std::string> chips_of(const std::vector<ResolvedServing>& runs) {
  std::set<std::string> chips;
  for (const ResolvedServing& run : runs) chips.insert(run.chip);
  return chips;
}

std::vector<LoadErrors> errors_of_all(const std::vector<ResolvedServing>& runs,
                                      const RuntimeProfile& profile, int requests, int jobs) {
  std::vector<LoadErrors> out(runs.size());
  std::atomic<std::size_t> next = 0;
  in_parallel(jobs, [&] {
    for (std::size_t i = next++; i < runs.size(); i = next++)
      out[i] = errors_of(runs[i], profile, requests);
  });
  return out;
}

// The residual of a row after a step: its error, and what the step changes of it.
struct Linear {
  const Row* row;
  bool operator()(double const* const* step, double* residual) const {
    double error = row->error;
    for (std::size_t i = 0; i < row->by.size(); ++i) error += row->by[i] * step[0][i];
    residual[0] = error * row->weight / kSpread;
    return true;
  }
};
struct FromPrior {
  std::size_t index;
  double distance, spread;  // before the step
  bool operator()(double const* const* step, double* residual) const {
    residual[0] = (distance + step[0][index]) / spread;
    return true;
  }
};

template <class Cost>
ceres::CostFunction* numeric(Cost cost, std::size_t parameters) {
  auto* function = new ceres::DynamicNumericDiffCostFunction<Cost, ceres::CENTRAL>(new Cost(cost));
  function->AddParameterBlock(int(parameters));
  function->SetNumResiduals(1);
  return function;
}

class ServerFitter {
 public:
  // `fitted`: where steps begin; null: at what is likely.
  ServerFitter(const RuntimeProfile& profile, const RuntimeProfile* fitted,
               std::vector<ResolvedServing> runs, int jobs)
      : profile_(profile),
        all_(std::move(runs)),
        runs_(sample_of(all_)),
        parameters_(server_parameters(profile, chips_of(runs_))),
        jobs_(jobs),
        logs_(fitted ? logs_of(*fitted, parameters_) : likely(parameters_)) {
    set_rows(errors_of_all(runs_, profile_at(logs_), kRequests, jobs_));
  }

  // False: there is no solution.
  bool solve(const std::function<void(const std::string&)>& progress) {
    double cost = cost_of(rows_, logs_);
    for (int step = 1; step <= kMaxSteps; ++step) {
      progress(fmt::format("step {} of at most {}: mean error {:.1f} %", step, kMaxSteps,
                           100 * mean_error()));
      differentiate();
      const double before = cost;
      const std::vector<double> from = logs_;
      std::vector<double> move = moved({});
      if (move.empty()) return false;
      for (int half = 0; half < 3; ++half) {
        for (std::size_t i = 0; i < move.size(); ++i) logs_[i] = from[i] + move[i];
        set_errors(errors_of_all(runs_, profile_at(logs_), kRequests, jobs_));
        cost = cost_of(rows_, logs_);
        if (cost < before) break;
        for (double& m : move) m /= 2;
      }
      if (cost >= before) {
        logs_ = from;
        break;
      }
      if (before - cost < kMinGain * before) break;
    }
    set_errors(errors_of_all(runs_, profile_at(logs_), kRequests, jobs_));
    differentiate();
    return true;
  }

  void differentiate() {
    for (Row& row : rows_) row.by.assign(parameters_.size(), 0);
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      std::vector<double> at = logs_;
      const bool at_end = at[i] + kStep > std::log(parameters_[i].most);
      const double step = at_end ? -kStep : kStep;
      at[i] += step;
      const auto moved = errors_of_some(parameters_[i].chip, profile_at(at));
      for (Row& row : rows_)
        if (const auto& error = moved[row.run].of[std::size_t(row.figure)])
          row.by[i] = (*error - row.error) / step;
    }
  }

  ServerFit result(const std::function<void(const std::string&)>& progress) {
    constexpr int kFor99 = 1000;
    ServerFit fit;
    const auto fitted = errors_of_all(all_, profile_at(logs_), kFor99, jobs_);
    for (std::size_t i = 0; i < all_.size(); ++i) fit.loads.push_back({all_[i], fitted[i], {}});
    const std::set<std::string> chips = chips_of(all_);
    for (const std::string& chip : chips) {
      progress(fmt::format("without {}", chip));
      leave_out(chip, kFor99, fit);
    }
    progress("");
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      fit.values.push_back(std::exp(logs_[i]));
      constexpr double kMoved = 0.02;  // by a factor of e
      fit.rows.push_back(int(std::ranges::count_if(
          rows_, [&](const Row& row) { return std::abs(row.by[i]) > kMoved; })));
    }
    fit.parameters = std::move(parameters_);
    fit.chips = int(chips.size());
    return fit;
  }

 private:
  RuntimeProfile profile_at(const std::vector<double>& logs) const {
    return with_values(profile_, parameters_, logs);
  }

  void set_rows(const std::vector<LoadErrors>& errors) {
    std::map<std::pair<std::string, int>, int> count;
    for (std::size_t r = 0; r < runs_.size(); ++r)
      for (int f = 0; f < kLoadFigures; ++f)
        if (is_fitted(LoadFigure(f)) && errors[r].of[f]) {
          rows_.push_back({r, LoadFigure(f), 1, *errors[r].of[f], {}});
          ++count[{runs_[r].chip, f}];
        }
    for (Row& row : rows_)
      row.weight = 3 / std::sqrt(double(count.at({runs_[row.run].chip, int(row.figure)})));
  }

  // A row without a forecast keeps the error it had.
  void set_errors(const std::vector<LoadErrors>& errors) {
    for (Row& row : rows_)
      if (const auto& error = errors[row.run].of[std::size_t(row.figure)]) row.error = *error;
  }

  // Of the runs on a chip; empty: on all.
  std::vector<LoadErrors> errors_of_some(const std::string& chip,
                                         const RuntimeProfile& profile) const {
    if (chip.empty()) return errors_of_all(runs_, profile, kRequests, jobs_);
    std::vector<ResolvedServing> own;
    for (const ResolvedServing& run : runs_)
      if (run.chip == chip) own.push_back(run);
    const auto errors = errors_of_all(own, profile, kRequests, jobs_);
    std::vector<LoadErrors> out(runs_.size());
    std::size_t next = 0;
    for (std::size_t i = 0; i < runs_.size(); ++i)
      if (runs_[i].chip == chip) out[i] = errors[next++];
    return out;
  }

  // The step to the solution of the linearised problem without a chip's rows; empty: there is none.
  std::vector<double> moved(const std::string& without) const {
    const std::size_t n = parameters_.size();
    std::vector<double> step(n, 0.0);
    ceres::Problem problem;
    for (const Row& row : rows_)
      if (runs_[row.run].chip != without)
        problem.AddResidualBlock(numeric(Linear{&row}, n), new ceres::CauchyLoss(kOutlier),
                                 step.data());
    for (std::size_t i = 0; i < n; ++i) {
      const Parameter& p = parameters_[i];
      problem.AddResidualBlock(numeric(FromPrior{i, logs_[i] - std::log(p.prior), p.spread}, n),
                               nullptr, step.data());
      problem.SetParameterLowerBound(step.data(), int(i),
                                     std::clamp(std::log(p.least) - logs_[i], -kMaxMove, 0.0));
      problem.SetParameterUpperBound(step.data(), int(i),
                                     std::clamp(std::log(p.most) - logs_[i], 0.0, kMaxMove));
    }
    ceres::Solver::Options solver;
    solver.linear_solver_type = ceres::DENSE_QR;
    solver.logging_type = ceres::SILENT;
    ceres::Solver::Summary summary;
    ceres::Solve(solver, &problem, &summary);
    return summary.IsSolutionUsable() ? step : std::vector<double>{};
  }

  void leave_out(const std::string& chip, int requests, ServerFit& fit) const {
    std::vector<double> at = logs_;
    const std::vector<double> step = moved(chip);
    for (std::size_t i = 0; i < step.size(); ++i) at[i] += step[i];
    for (std::size_t i = 0; i < at.size(); ++i)
      if (parameters_[i].chip == chip) at[i] = std::log(parameters_[i].prior);
    std::vector<ResolvedServing> own;
    for (const ResolvedServing& run : all_)
      if (run.chip == chip) own.push_back(run);
    const auto errors = errors_of_all(own, profile_at(at), requests, jobs_);
    std::size_t next = 0;
    for (FittedLoad& load : fit.loads)
      if (load.run.chip == chip) load.left_out = errors[next++];
  }

  double cost_of(const std::vector<Row>& rows, const std::vector<double>& logs) const {
    double sum = 0;
    const double outlier = kOutlier * kOutlier;
    for (const Row& row : rows) {
      const double residual = row.error * row.weight / kSpread;
      sum += outlier * std::log1p(residual * residual / outlier);
    }
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      sum += std::pow((logs[i] - std::log(parameters_[i].prior)) / parameters_[i].spread, 2);
    return sum;
  }

  double mean_error() const {
    double sum = 0, weights = 0;
    for (const Row& row : rows_) {
      sum += row.weight * row.weight * std::abs(row.error);
      weights += row.weight * row.weight;
    }
    return weights > 0 ? sum / weights : 0;
  }

  const RuntimeProfile& profile_;
  std::vector<ResolvedServing> all_, runs_;  // to judge by, and to fit on
  std::vector<Parameter> parameters_;
  int jobs_;
  std::vector<double> logs_;
  std::vector<Row> rows_;
};

}  // namespace

Result<ServerFit> fit_server(const RuntimeProfile& profile, std::vector<ResolvedServing> runs,
                             int jobs, const std::function<void(const std::string&)>& progress) {
  ServerFitter fitter(profile, nullptr, distinct_loads(std::move(runs)), jobs);
  if (!fitter.solve(progress))
    return Error{ErrorKind::kMachine, "the fit found no solution", "are the figures plausible?"};
  return fitter.result(progress);
}

ServerFit judge_server_fit(const RuntimeProfile& profile, const RuntimeProfile& fitted,
                           std::vector<ResolvedServing> runs, int jobs,
                           const std::function<void(const std::string&)>& progress) {
  ServerFitter fitter(profile, &fitted, distinct_loads(std::move(runs)), jobs);
  fitter.differentiate();
  return fitter.result(progress);
}

}  // namespace rigcast::calibration
