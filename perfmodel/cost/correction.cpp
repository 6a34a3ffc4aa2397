#include "perfmodel/cost/correction.hpp"

#include <algorithm>
#include <cmath>

#include "perfmodel/cost/profile_interval.hpp"

namespace rigcast {
namespace {

const std::optional<Correction::Speed>& of_metric(const Correction& c, SpeedMetric metric) {
  return metric == SpeedMetric::kDecode ? c.decode : c.prefill;
}

}  // namespace

double device_speed(const StepContext& s, TokenCount tokens) {
  const Correction* c = s.correction();
  if (!c) return 1.0;
  const auto& speed = tokens == 1 ? c->decode : c->prefill;
  return speed ? speed->factor.value : 1.0;
}

double profile_spread(const StepContext& s, SpeedMetric metric, Regime regime) {
  const ProfileInterval of = profile_interval(s, metric, regime);
  return std::log(of.high / of.low) / 2.0;
}

std::optional<double> narrower_spread(const StepContext& s, SpeedMetric metric, Regime regime) {
  const Correction* c = s.correction();
  if (!c) return std::nullopt;
  const auto& speed = of_metric(*c, metric);
  if (!speed || speed->spread >= profile_spread(s, metric, regime)) return std::nullopt;
  const auto& regimes = speed->regimes;
  const bool measured =
      regimes.empty() || std::ranges::find(regimes, name(regime)) != regimes.end();
  return measured ? std::optional<double>(speed->spread) : std::nullopt;
}

}  // namespace rigcast
