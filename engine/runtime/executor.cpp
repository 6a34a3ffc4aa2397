#include "engine/runtime/executor.hpp"

namespace rigcast::engine {

std::int32_t Executor::decode(std::int32_t token, Sampler& sampler) {
  const std::span<const float> logits = forward({&token, 1}, Logits::kLast);
  return sample(sampler, logits, cached(), recorder_);
}

std::int32_t sample(Sampler& sampler, std::span<const float> logits, TokenCount cached,
                    Recorder* recorder) {
  const double since = recorder ? recorder->now() : 0;
  const std::int32_t id = sampler.next(logits);
  if (recorder) recorder->add(ActivityKind::kSample, -1, cached, since, 0);
  return id;
}

}  // namespace rigcast::engine
