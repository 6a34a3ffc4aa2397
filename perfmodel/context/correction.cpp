#include "perfmodel/context/correction.hpp"

#include <algorithm>
#include <cmath>

#include "perfmodel/context/profile_interval.hpp"

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

namespace {

// True if a probe measured the device: its rates tell what rows of the same chip elsewhere cannot.
bool is_probed(const StepContext& s, DeviceIndex device) {
  if (device == kHost) return s.rig.cpu.int8_rate || s.rig.cpu.core_read;
  const GpuPart& gpu = s.rig.gpus[std::size_t(device)];
  return gpu.bandwidth.kind == SourceKind::kMeasured;
}

}  // namespace

double chip_speed(const StepContext& s, TokenCount tokens, DeviceIndex device) {
  if (is_probed(s, device)) return 1.0;
  const std::string& id = device == kHost ? s.rig.cpu.id : s.rig.gpus[std::size_t(device)].id;
  const auto known = s.runtime.chips.find(id);
  if (known == s.runtime.chips.end()) return 1.0;
  return (tokens > 1 ? known->second.prefill : known->second.decode).value;
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
