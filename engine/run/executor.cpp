#include "engine/run/executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.hpp"

namespace rigcast::engine {
std::int32_t Executor::decode(std::int32_t token, Sampler& sampler) {
  const std::span<const float> logits = forward({&token, 1}, Logits::kLast);
  return sample(sampler, logits, cached(), recorder_);
}

DeviceMemory host_memory(const Ram& ram) {
  DeviceMemory host{"host", Tier::kRam, {}, {}, {}, {}, {}, {}, {}};
  for (const Ram::Item& item : ram.items()) {
    if (item.name == "weights")
      host.weights += item.held;
    else if (item.name == "KV cache" || item.name == "recurrent states")
      host.kv += item.held;
    else if (item.name == "activations")
      host.activations += item.held;
    else
      host.staging += item.held;
  }
  host.capacity = ram.limit().value_or(Bytes{});
  return host;
}

void check_nan(std::span<const float> logits) {
  if (!any_nan(logits)) return;
  const auto at = std::ranges::find_if(logits, [](float logit) { return std::isnan(logit); });
  throw MachineError(
      fmt::format("the logit of token {} is not a number: weights of the file are damaged, or "
                  "numbers grew past what they are computed in",
                  at - logits.begin()));
}

std::int32_t sample(Sampler& sampler, std::span<const float> logits, TokenCount cached,
                    Recorder* recorder) {
  const double since = recorder ? recorder->now() : 0;
  check_nan(logits);
  const std::int32_t id = sampler.next(logits);
  if (recorder) recorder->add(ActivityKind::kSample, -1, cached, since, 0);
  return id;
}

}  // namespace rigcast::engine
