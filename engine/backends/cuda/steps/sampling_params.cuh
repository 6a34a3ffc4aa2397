#pragma once
// How a GPU draws a token where a sampler would.

#include <cstdint>
#include <optional>

#include "engine/kernels/cuda/sampling/sample.cuh"
#include "engine/run/sampler.hpp"

namespace rigcast::engine::cuda {

/// The sampler's next draw; nullopt: it has more candidates than the GPU can sample from.
std::optional<SamplingParams> sampling_of(const Sampler& sampler, std::int64_t vocabulary);

}  // namespace rigcast::engine::cuda
