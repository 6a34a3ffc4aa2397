#include "calibration/sample.hpp"

#include <algorithm>
#include <cmath>

namespace rigcast::calibration {
namespace {

// A step of a logarithm, which shows whether the forecast depends on it.
constexpr double kNudge = 0.01;

}  // namespace

Sample::Sample(const ResolvedRun& run, const RuntimeProfile& profile)
    : run_(&run), scenario_(std::make_unique<Scenario>(*run.scenario)) {
  scenario_->runtime = profile;
  forecast_ = std::make_unique<SerialForecast>(*scenario_);
}

void Sample::bind(const std::vector<Parameter>& parameters, const std::vector<double>& values) {
  depends_on_.clear();
  figures_.clear();
  const std::string& id = scenario_->runtime.id;
  const auto own = [&](const Parameter& p) {
    for (const Parameter& q : parameters)
      if (q.path == p.path && q.runtime == id) return true;
    return false;
  };
  const auto has_architecture = [&](const std::string& name) {
    return std::ranges::find(scenario_->rig.gpus, name, &GpuPart::architecture) !=
           scenario_->rig.gpus.end();
  };
  std::vector<int> mine;
  for (int i = 0; i < int(parameters.size()); ++i) {
    const Parameter& p = parameters[std::size_t(i)];
    const bool applies = p.runtime.empty() ? !own(p) : p.runtime == id;
    if (!p.architecture.empty() && !has_architecture(p.architecture)) continue;
    if (!applies) continue;
    mine.push_back(i);
    *p.in(scenario_->runtime) = std::exp(values[std::size_t(i)]);
  }
  const double at = error();
  for (const int i : mine) {
    double* figure = parameters[std::size_t(i)].in(scenario_->runtime);
    const double value = *figure;
    *figure = value * std::exp(kNudge);
    bool moves = error() != at;
    *figure = value * std::exp(-kNudge);
    moves = moves || error() != at;
    *figure = value;
    if (!moves) continue;
    depends_on_.push_back(i);
    figures_.push_back(figure);
  }
}

double Sample::error() const {
  const bool decode = run_->measured.metric == Metric::kTg;
  const double seconds =
      decode ? forecast_->mean_token().value
             : forecast_->prompt().value / double(scenario_->workload.prompt_tokens);
  return -std::log(seconds * run_->measured.value);
}

double Sample::error(const double* values) const {
  for (std::size_t k = 0; k < figures_.size(); ++k) *figures_[k] = std::exp(values[k]);
  return error();
}

double Sample::error_among(const std::vector<double>& all) const {
  for (std::size_t k = 0; k < figures_.size(); ++k)
    *figures_[k] = std::exp(all[std::size_t(depends_on_[k])]);
  return error();
}

}  // namespace rigcast::calibration
