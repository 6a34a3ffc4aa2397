#pragma once
// Choices of the project's own engine, as the forecast repeats them. The engine has them from its
// own code; tests/validation/mirrors compares both.

#include "core/base/units.hpp"
#include "core/model/model_spec.hpp"

namespace rigcast {

/// Batches of up to this many tokens are computed one by one. Mirrors kFewTokens
/// (engine/placement/prefill_offload.hpp).
inline constexpr TokenCount kFewTokens = 2;

/// The smallest share of a layer's copy time that the host must save before it attends to evicted
/// blocks. Mirrors CpuGpuKvSplit::kMinHostGain (engine/backends/cuda/kv/cpu_gpu_kv_split.hpp).
inline constexpr double kMinHostGain = 0.15;

/// Tokens of the batch with which the host is timed when a model is loaded; at most `ubatch`.
/// Mirrors timed_tokens (engine/placement/prefill_offload.hpp).
TokenCount timed_tokens(const ModelSpec& model, TokenCount ubatch);

}  // namespace rigcast
