#pragma once
// Decides whether a prompt's batch runs on the GPU with copied weights, or on the host.

#include "core/base/units.hpp"
#include "core/model/model_spec.hpp"

namespace rigcast::engine {

/// Batches of up to this many tokens are computed one by one, which is cheaper.
inline constexpr TokenCount kFewTokens = 2;

/// The device that computes the batches of host layers and experts, where the placement allows the
/// GPU: the faster one by measured rates, or always the same.
enum class PrefillOffloadPolicy { kFaster, kHost, kGpu };

/// Measured once, when a model is loaded.
struct OffloadRates {
  BytesPerSecond link;  // from the host to the GPU
  FlopsPerSecond host;  // for a batch's products
};

/// The work of a batch with weights that the host keeps.
struct OffloadCost {
  Bytes copied;  // weights, cached KV and states, copied once for the whole batch
  Flops of_token;
  TokenCount tokens = 0;
};

/// The times of both ways. Copying takes copied / link, and hides the GPU's computation; the host
/// takes tokens * of_token / host, and hides its reads of weights. Attention is in neither.
inline Seconds copy_time(const OffloadCost& b, const OffloadRates& r) { return b.copied / r.link; }
inline Seconds host_time(const OffloadCost& b, const OffloadRates& r) {
  return double(b.tokens) * b.of_token / r.host;
}
inline bool copies(PrefillOffloadPolicy by, const OffloadCost& b, const OffloadRates& r) {
  if (by != PrefillOffloadPolicy::kFaster) return by == PrefillOffloadPolicy::kGpu;
  return copy_time(b, r) < host_time(b, r);
}

/// Tokens of the batch with which the host is timed: so many that weights, and experts, are reused
/// and not only read; at most `ubatch`.
TokenCount timed_tokens(const ModelSpec& model, TokenCount ubatch);

}  // namespace rigcast::engine
