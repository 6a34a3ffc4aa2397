#include "calibration/speed_of_runs.hpp"

#include <algorithm>
#include <cmath>

namespace rigcast {
namespace {

constexpr double kMinPrior = 0.01;

}  // namespace

Correction::Speed speed_of_runs(std::span<const OwnRun> runs, double other_models) {
  RIGCAST_ASSERT(!runs.empty());
  const double n = double(runs.size());
  double middle = 0, prior = 0, noise = 0;
  for (const OwnRun& run : runs) {
    middle += run.ratio / n;
    prior += std::pow(std::max(run.prior, kMinPrior), 2) / n;
    noise += std::pow(std::max(run.noise, kRunNoise), 2) / n;
  }
  const double known = 1.0 / (1.0 / prior + n / noise);  // posterior variance
  Correction::Speed speed;
  speed.factor.value =
      std::clamp(std::exp(middle * prior / (prior + other_models * other_models + noise / n)),
                 Correction::kMinFactor, Correction::kMaxFactor);
  speed.factor.kind = SourceKind::kMeasured;
  speed.spread = kNormal80 * std::sqrt(known + other_models * other_models);
  return speed;
}

}  // namespace rigcast
