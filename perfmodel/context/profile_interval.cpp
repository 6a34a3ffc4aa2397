#include "perfmodel/context/profile_interval.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/scenario/chip_family.hpp"

namespace rigcast {

std::vector<std::string> unmeasured_families(const StepContext& s, SpeedMetric metric,
                                             Regime regime) {
  std::vector<std::string> families = chip_families(s.rig, regime);
  const bool slow_host = has_slow_host(s.rig, regime);
  std::erase_if(families, [&](const std::string& family) {
    return s.runtime.has_measured(family, slow_host, metric);
  });
  return families;
}

ProfileInterval profile_interval(const StepContext& s, SpeedMetric metric, Regime regime) {
  const auto& u = s.runtime.uncertainty;
  const double share = (metric == SpeedMetric::kDecode ? u.decode : u.prefill).value;
  const auto* chips = s.runtime.spread(metric, name(regime));
  const ProfileInterval measured = chips ? ProfileInterval{chips->low, chips->high}
                                         : ProfileInterval{1 / (1 + share), 1 + share};
  const auto* families = s.runtime.family_spread(metric, name(regime));
  if (!families || unmeasured_families(s, metric, regime).empty()) return measured;
  return {std::min(measured.low, families->low), std::max(measured.high, families->high)};
}

std::string unmeasured_text(const StepContext& s, const std::vector<std::string>& decode,
                            const std::vector<std::string>& prefill, Regime regime) {
  if (decode.empty() && prefill.empty()) return "";
  const std::vector<std::string>& families = decode.empty() ? prefill : decode;
  const bool cpu = regime == Regime::kCpuOnly;
  const bool slow_host = has_slow_host(s.rig, regime);
  const bool beside_other_hosts = std::ranges::all_of(families, [&](const std::string& family) {
    return s.runtime.has_measured(family, !slow_host,
                                  decode.empty() ? SpeedMetric::kPrefill : SpeedMetric::kDecode);
  });
  const std::string_view host = cpu || !beside_other_hosts ? ""
                                : slow_host                ? " on boards and Arm servers"
                                                           : " on PCs and servers";
  const std::string_view run = decode.empty() ? "prompt" : prefill.empty() ? "decoding" : "run";
  const std::string_view intervals = decode.empty()    ? "the interval of prefill is"
                                     : prefill.empty() ? "the interval of decode is"
                                                       : "the intervals are";
  const bool one = decode.empty() != prefill.empty();
  const auto* spread = s.runtime.family_spread(
      decode.empty() ? SpeedMetric::kPrefill : SpeedMetric::kDecode, name(regime));
  const bool assumed = spread && spread->rows == 0;
  return fmt::format("no measured {} of {} {}{}: {} {}", run, fmt::join(families, " and "),
                     cpu ? "CPUs" : "GPUs", host, intervals,
                     assumed ? "assumed"
                     : one   ? "that of families left out of the fit"
                             : "those of families left out of the fit");
}

}  // namespace rigcast
