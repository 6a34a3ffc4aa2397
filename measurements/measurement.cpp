#include "measurements/measurement.hpp"

namespace rigcast {

std::string_view name(Metric metric) {
  switch (metric) {
    case Metric::kTg: return name(SpeedMetric::kDecode);
    case Metric::kPp: return name(SpeedMetric::kPrefill);
    case Metric::kTtft: return "ttft_s";
    case Metric::kLoad: return "load_s";
    case Metric::kVram: return "vram_gb";
  }
  return "";
}

std::optional<SpeedMetric> speed_metric(Metric metric) {
  if (metric == Metric::kTg) return SpeedMetric::kDecode;
  if (metric == Metric::kPp) return SpeedMetric::kPrefill;
  return std::nullopt;
}

std::optional<Metric> metric_from(std::string_view text) {
  for (const Metric m : {Metric::kTg, Metric::kPp, Metric::kTtft, Metric::kLoad, Metric::kVram})
    if (name(m) == text) return m;
  return std::nullopt;
}

}  // namespace rigcast
