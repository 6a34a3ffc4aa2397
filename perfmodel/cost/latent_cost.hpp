#pragma once
// What a GPU takes for latent attention, where the thread blocks of its kernels are known.

#include "core/model/traffic.hpp"
#include "perfmodel/context/step_context.hpp"

namespace rigcast {

/// Of a batch, with a block for each token and some heads: a unit runs several blocks at once, and
/// each goes through all keys. Needs BlockEfficiency::latent_key.
Seconds latent_attention_time(const StepContext& context, const GpuPart& gpu, const OpTraffic& t);

/// How often attention of one token reads the cache: once for some of the heads, if it is latent.
double latent_reads(const StepContext& context, bool batched);

}  // namespace rigcast
