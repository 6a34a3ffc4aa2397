#include "perfmodel/cost/correction.hpp"

#include <algorithm>
#include <cmath>

#include "perfmodel/cost/profile_interval.hpp"

namespace rigcast {
namespace {

bool holds_in(const Correction::Speed& speed, Regime regime) {
  const auto& regimes = speed.regimes;
  return regimes.empty() || std::ranges::find(regimes, name(regime)) != regimes.end();
}

}  // namespace

double device_speed(const StepContext& s, TokenCount tokens, bool on_host) {
  const Correction* c = s.correction();
  if (!c) return 1.0;
  const bool beside_gpus = on_host && !s.rig.gpus.empty() && c->host_decode;
  const auto& speed = tokens > 1 ? c->prefill : beside_gpus ? c->host_decode : c->decode;
  return speed ? speed->factor.value : 1.0;
}

double profile_spread(const StepContext& s, SpeedMetric metric, Regime regime) {
  const ProfileInterval of = profile_interval(s, metric, regime);
  return std::log(of.high / of.low) / 2.0;
}

std::optional<double> narrower_spread(const StepContext& s, SpeedMetric metric, Regime regime) {
  const Correction* c = s.correction();
  if (!c) return std::nullopt;
  const bool decode = metric == SpeedMetric::kDecode;
  for (const auto& speed :
       {decode ? c->host_decode : std::nullopt, decode ? c->decode : c->prefill})
    if (speed && holds_in(*speed, regime) && speed->spread < profile_spread(s, metric, regime))
      return speed->spread;
  return std::nullopt;
}

}  // namespace rigcast
