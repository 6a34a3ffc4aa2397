#pragma once
// One token through all layers.

#include "engine/backends/cuda/forward/stages.cuh"
#include "engine/backends/cuda/forward/state.cuh"

namespace rigcast::engine::cuda {

/// Of the ids that may follow: the likeliest, or what token.sampling->draw says.
enum class Choice { kLikeliest, kDrawn };

/// Queues one token: the id at vectors.ids, at *token.position, which grows by one. Its logits go
/// to token.logits, the id that is chosen to vectors.ids and next_id, unless the head is on the
/// host. Attention over the cache is cut into `splits` parts. Nothing is waited for but the host
/// where it takes its turns meanwhile; where it has a part, it is to answer the mailbox.
void queue_token(State& s, int splits, Choice choice, Stages* stages);

/// Queues the mixture of experts for row `row` of vectors.hidden, which is added to it.
void queue_experts(const ForwardContext& f, const DeviceLayer& layer, int row);

/// Queues the logits of row `row` of vectors.hidden, to token.logits.
void queue_head(const ForwardContext& f, int row);

}  // namespace rigcast::engine::cuda
