#include "calibration/fit/sample.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

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

std::vector<int> Sample::applying(const std::vector<Parameter>& parameters) const {
  const std::string& id = scenario_->runtime.id;
  std::set<std::string_view> own;  // figures of which the profile has one of its own
  for (const Parameter& p : parameters)
    if (p.runtime == id) own.insert(p.path);
  const auto& gpus = scenario_->rig.gpus;
  const auto has_architecture = [&](const std::string& name) {
    return name.empty() || std::ranges::find(gpus, name, &GpuPart::architecture) != gpus.end();
  };
  const auto has_chip = [&](const std::string& chip) {
    return chip.empty() || chip == scenario_->rig.cpu.id ||
           std::ranges::find(gpus, chip, &GpuPart::id) != gpus.end();
  };
  std::vector<int> out;
  for (int i = 0; i < int(parameters.size()); ++i) {
    const Parameter& p = parameters[std::size_t(i)];
    const bool applies = p.runtime.empty() ? !own.contains(p.path) : p.runtime == id;
    const bool of_source = p.source.empty() || (p.source == run_->measured.source &&
                                                p.metric == *speed_metric(run_->measured.metric));
    if (applies && of_source && has_architecture(p.architecture) && has_chip(p.chip))
      out.push_back(i);
  }
  return out;
}

double* Sample::figure(const Parameter& parameter) const {
  return parameter.source.empty() ? parameter.in(scenario_->runtime) : source_factor_.get();
}

void Sample::set(const std::vector<Parameter>& parameters, const std::vector<double>& values) {
  if (applying_.empty()) applying_ = applying(parameters);
  for (const int i : applying_)
    *figure(parameters[std::size_t(i)]) = std::exp(values[std::size_t(i)]);
}

void Sample::bind(const std::vector<Parameter>& parameters, const std::vector<double>& values) {
  set(parameters, values);
  depends_on_.clear();
  figures_.clear();
  const double at = error();
  for (const int i : applying_) {
    double* const at_figure = figure(parameters[std::size_t(i)]);
    const double value = *at_figure;
    *at_figure = value * std::exp(kNudge);
    bool moves = error() != at;
    *at_figure = value * std::exp(-kNudge);
    moves = moves || error() != at;
    *at_figure = value;
    if (!moves) continue;
    depends_on_.push_back(i);
    figures_.push_back(at_figure);
  }
}

void Sample::bind_like(const Sample& other, const std::vector<Parameter>& parameters,
                       const std::vector<double>& values) {
  set(parameters, values);
  depends_on_ = other.depends_on_;
  figures_.clear();
  for (const int i : depends_on_) figures_.push_back(figure(parameters[std::size_t(i)]));
}

double Sample::error() const {
  const bool decode = run_->measured.metric == Metric::kTg;
  const double seconds =
      decode ? forecast_->mean_token().value
             : forecast_->prompt().value / double(scenario_->workload.prompt_tokens);
  return std::log(*source_factor_) - std::log(seconds * run_->measured.value);
}

double Sample::error(const double* values) const {
  for (std::size_t k = 0; k < figures_.size(); ++k) *figures_[k] = std::exp(values[k]);
  return error();
}

double Sample::error_among(const std::vector<double>& all) const {
  for (std::size_t k = 0; k < figures_.size(); ++k)
    *figures_[k] = std::exp(all[std::size_t(depends_on_[k])]);
  *source_factor_ = 1.0;
  return error();
}

}  // namespace rigcast::calibration
