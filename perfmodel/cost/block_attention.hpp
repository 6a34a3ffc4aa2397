#pragma once
// Attention of prompts by kernels whose thread-block shapes are known.

#include "core/base/units.hpp"
#include "core/model/traffic.hpp"
#include "perfmodel/context/step_context.hpp"

namespace rigcast {

struct BlockAttention {
  Seconds full;          // that the products of the whole batch take on busy units
  Seconds at_full_rate;  // the same at the GPU's rate
  double units = 0;      // of the GPU; 0: unknown
  Seconds gap;           // from a kernel to the next
  BytesPerSecond bandwidth;
  bool has_blocks = true;  // it is of the architectures of the blocks' figures
};

/// One prompt after the other. A block goes over the keys of its last token one after the other:
/// with few blocks this latency bounds a prompt's attention, not the products, and blocks share the
/// keys. Sequences with a single new token have kernels of their own.
Seconds block_attention_time(const StepContext& s, const OpTraffic& t, TokenCount tokens,
                             const BlockAttention& gpu);

}  // namespace rigcast
