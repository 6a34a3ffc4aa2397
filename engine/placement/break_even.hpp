#pragma once
// Whether a prompt's batch goes faster through weights that are copied to the GPU, or on the host.

#include "core/base/units.hpp"

namespace rigcast::engine {

/// Who computes the batches of layers and experts that are the host's, where the placement lets the
/// GPU: whoever is faster by what was measured, or always the same.
enum class BatchesBy { kFaster, kHost, kGpu };

/// Measured once, when a model is loaded.
struct BatchRates {
  BytesPerSecond link;  // from the host to the GPU
  FlopsPerSecond host;  // of a batch's products
};

/// What a batch needs of weights that the host keeps.
struct BatchNeeds {
  Bytes copied;  // weights, and cached keys and values: once for the whole batch
  Flops of_token;
  TokenCount tokens = 0;
};

/// Copying takes copied / link, and the GPU computes in its shadow; the host takes
/// tokens * of_token / host, and reads its weights in that one's. Attention is in neither.
inline Seconds copying_time(const BatchNeeds& b, const BatchRates& r) { return b.copied / r.link; }
inline Seconds host_time(const BatchNeeds& b, const BatchRates& r) {
  return double(b.tokens) * b.of_token / r.host;
}
inline bool copies(BatchesBy by, const BatchNeeds& b, const BatchRates& r) {
  if (by != BatchesBy::kFaster) return by == BatchesBy::kGpu;
  return copying_time(b, r) < host_time(b, r);
}

}  // namespace rigcast::engine
