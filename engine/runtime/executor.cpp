#include "engine/runtime/executor.hpp"

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
    else if (item.name == "KV cache")
      host.kv += item.held;
    else if (item.name == "activations")
      host.activations += item.held;
    else
      host.staging += item.held;
  }
  host.capacity = ram.limit().value_or(Bytes{});
  return host;
}

std::int32_t sample(Sampler& sampler, std::span<const float> logits, TokenCount cached,
                    Recorder* recorder) {
  const double since = recorder ? recorder->now() : 0;
  const std::int32_t id = sampler.next(logits);
  if (recorder) recorder->add(ActivityKind::kSample, -1, cached, since, 0);
  return id;
}

}  // namespace rigcast::engine
