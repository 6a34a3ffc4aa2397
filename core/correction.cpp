#include "core/correction.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace rigcast {
namespace {

constexpr double kLeastFactor = 0.02, kMostFactor = 50;  // beyond these it is another machine
constexpr double kMostSpread = 3;
constexpr double kLeastPrior = 0.01;

std::optional<Correction::Speed> read_speed(const TomlTable& t, std::string_view key) {
  const std::string spread = fmt::format("{}_spread", key);
  const std::string regimes = fmt::format("{}_regimes", key);
  const auto factor = t.find_number_figure(key, kLeastFactor, kMostFactor);
  if (factor) t.require(spread);
  Correction::Speed speed;
  speed.spread = t.number_or(spread, 0, 0, kMostSpread);
  speed.regimes = t.texts(regimes);
  if (factor) {
    speed.factor = *factor;
    return speed;
  }
  if (t.has(spread)) t.refuse(spread, fmt::format("a spread of no {}", key));
  if (t.has(regimes)) t.refuse(regimes, fmt::format("regimes of no {}", key));
  return std::nullopt;
}

std::string speed_toml(std::string_view key, const std::optional<Correction::Speed>& speed) {
  if (!speed) return {};
  std::vector<std::string> regimes;
  for (const std::string& regime : speed->regimes) regimes.push_back(toml_text(regime));
  return fmt::format(
      "{0} = {{ value = {1:.4f}, kind = \"{2}\", source = {3} }}\n{0}_spread = {4:.4f}\n"
      "{0}_regimes = [{5}]\n",
      key, speed->factor.value, name(speed->factor.kind), toml_text(speed->factor.source),
      speed->spread, fmt::join(regimes, ", "));
}

const std::optional<Correction::Speed>& of_metric(const Correction& c, std::string_view metric) {
  return metric == "tg_tps" ? c.decode : c.prefill;
}

}  // namespace

Correction::Speed speed_of_runs(std::span<const OwnRun> runs, double other_models) {
  RIGCAST_ASSERT(!runs.empty());
  const double n = double(runs.size());
  double middle = 0, prior = 0, noise = 0;
  for (const OwnRun& run : runs) {
    middle += run.ratio / n;
    prior += std::pow(std::max(run.prior, kLeastPrior), 2) / n;
    noise += std::pow(std::max(run.noise, kRunNoise), 2) / n;
  }
  const double known = 1.0 / (1.0 / prior + n / noise);  // variance of what is left
  Correction::Speed speed;
  speed.factor.value =
      std::clamp(std::exp(middle * prior / (prior + other_models * other_models + noise / n)),
                 kLeastFactor, kMostFactor);
  speed.factor.kind = SourceKind::kMeasured;
  speed.spread = kNormal80 * std::sqrt(known + other_models * other_models);
  return speed;
}

std::map<std::string, Correction> read_corrections(const TomlTable& table) {
  std::map<std::string, Correction> corrections;
  for (const std::string& runtime : table.keys()) {
    const TomlTable t = table.table(runtime);
    Correction c;
    c.decode = read_speed(t, "decode");
    c.prefill = read_speed(t, "prefill");
    c.runs = int(t.integer_or("runs", 0, 0, 1'000'000));
    t.finish();
    corrections[runtime] = std::move(c);
  }
  return corrections;
}

std::string to_toml(const std::map<std::string, Correction>& corrections, std::string_view source) {
  std::string text = fmt::format(
      "# Written by `rigcast calibrate --own`. Measured speed over the forecast without these\n"
      "# figures; spread: half-width of the 80 % interval that is left, as a logarithm.\n"
      "source = {}\n",
      toml_text(source));
  for (const auto& [runtime, c] : corrections)
    text += fmt::format("\n[correction.{}]\n{}{}runs = {}\n", toml_text(runtime),
                        speed_toml("decode", c.decode), speed_toml("prefill", c.prefill), c.runs);
  return text;
}

const Correction* correction_of(const Scenario& s) {
  const auto own = s.rig.corrections.find(s.runtime.id);
  return own == s.rig.corrections.end() ? nullptr : &own->second;
}

double device_speed(const Scenario& s, TokenCount tokens) {
  const Correction* c = correction_of(s);
  if (!c) return 1.0;
  const auto& speed = tokens == 1 ? c->decode : c->prefill;
  return speed ? speed->factor.value : 1.0;
}

double profile_spread(const Scenario& s, std::string_view metric, Regime regime) {
  if (const auto* spread = s.runtime.spread(metric, name(regime)))
    return std::log(spread->high / spread->low) / 2.0;
  const auto& u = s.runtime.uncertainty;
  return std::log1p((metric == "tg_tps" ? u.decode : u.prefill).value);
}

std::optional<double> narrower_spread(const Scenario& s, std::string_view metric, Regime regime) {
  const Correction* c = correction_of(s);
  if (!c) return std::nullopt;
  const auto& speed = of_metric(*c, metric);
  if (!speed || speed->spread >= profile_spread(s, metric, regime)) return std::nullopt;
  const auto& regimes = speed->regimes;
  const bool measured =
      regimes.empty() || std::ranges::find(regimes, name(regime)) != regimes.end();
  return measured ? std::optional<double>(speed->spread) : std::nullopt;
}

}  // namespace rigcast
