#pragma once
// Decides whether a prompt's batch runs on the GPU with copied weights, or on the host.

#include "core/base/units.hpp"

namespace rigcast::engine {

/// The device that computes the batches of host layers and experts, where the placement allows the
/// GPU: the faster one by measured rates, or always the same.
enum class BatchesBy { kFaster, kHost, kGpu };

/// Measured once, when a model is loaded.
struct BatchRates {
  BytesPerSecond link;  // from the host to the GPU
  FlopsPerSecond host;  // for a batch's products
};

/// The work of a batch with weights that the host keeps.
struct BatchNeeds {
  Bytes copied;  // weights and cached KV, copied once for the whole batch
  Flops of_token;
  TokenCount tokens = 0;
};

/// The times of both ways. Copying takes copied / link, and hides the GPU's computation; the host
/// takes tokens * of_token / host, and hides its reads of weights. Attention is in neither.
inline Seconds copying_time(const BatchNeeds& b, const BatchRates& r) { return b.copied / r.link; }
inline Seconds host_time(const BatchNeeds& b, const BatchRates& r) {
  return double(b.tokens) * b.of_token / r.host;
}
inline bool copies(BatchesBy by, const BatchNeeds& b, const BatchRates& r) {
  if (by != BatchesBy::kFaster) return by == BatchesBy::kGpu;
  return copying_time(b, r) < host_time(b, r);
}

}  // namespace rigcast::engine
