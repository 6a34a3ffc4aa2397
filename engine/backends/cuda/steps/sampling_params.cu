#include "engine/backends/cuda/steps/sampling_params.cuh"

#include <algorithm>

namespace rigcast::engine::cuda {

std::optional<SamplingParams> sampling_of(const Sampler& sampler, std::int64_t vocabulary) {
  const Sampling& s = sampler.sampling();
  const std::int64_t kept = s.top_k > 0 ? std::min<std::int64_t>(s.top_k, vocabulary) : vocabulary;
  if (kept > kMaxTopK) return std::nullopt;
  return SamplingParams{s.temperature, int(kept), s.top_p, s.seed, sampler.drawn()};
}

}  // namespace rigcast::engine::cuda
