#pragma once
// The forward pass of one token through all layers.

#include "engine/backends/cuda/forward/stages.cuh"
#include "engine/backends/cuda/forward/state.cuh"

namespace rigcast::engine::cuda {

/// How the next id is chosen: the most likely one, or by sampling with token.sampling->params.
enum class SamplingMode { kGreedy, kSampled };

/// The most parts into which attention of a token is cut where up to so many tokens are in the
/// context. Layers whose heads occupy the GPU with fewer have fewer.
int splits_of_token(const State& s, TokenCount tokens);

/// Queues one token: the id at vectors.ids, at *token.position, which grows by one. Its logits are
/// written to token.logits, and the chosen id to vectors.ids and next_id, unless the head is on the
/// host. Attention over the cache is cut into at most `splits` parts. Nothing waits, except for
/// host operations that run while the token is queued; if the host computes a part, it must answer
/// the mailbox.
void queue_token(State& s, int splits, SamplingMode choice, StageListener* stages);

/// Queues the FFN, which is not beside attention, of the first row of vectors.hidden; its output is
/// added to the row.
void queue_ffn(const ForwardContext& f, const DeviceLayer& layer);

/// Queues the mixture of experts for row `row` of vectors.hidden; its output is added to the row.
void queue_experts(const ForwardContext& f, const DeviceLayer& layer, int row);

/// Queues the logits of row `row` of vectors.hidden, to token.logits.
void queue_head(const ForwardContext& f, int row);

}  // namespace rigcast::engine::cuda
