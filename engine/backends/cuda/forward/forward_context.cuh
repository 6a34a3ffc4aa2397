#pragma once
// Arguments of a layer's kernels: weights, buffers, and the stream on which they are queued. The KV
// cache, and what the host computes, are not part of it.

#include <span>

#include "engine/backends/cuda/forward/buffers.cuh"
#include "engine/backends/cuda/latent/latent_stage.cuh"
#include "engine/backends/cuda/recurrent/device_states.cuh"
#include "engine/backends/cuda/recurrent/mixers.cuh"
#include "engine/backends/cuda/weights/placed_model.cuh"
#include "engine/cuda/cublas/matmul.cuh"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/activations/elementwise.cuh"
#include "engine/kernels/cuda/attention/prefill_attention.cuh"
#include "engine/kernels/cuda/attention/soft_cap.cuh"
#include "engine/kernels/cuda/kv/cache.cuh"
#include "engine/kernels/cuda/kv/new_tokens.cuh"
#include "engine/kernels/cuda/matvec/router.cuh"
#include "engine/kernels/cuda/recurrent/attention_gate.cuh"

namespace rigcast::engine::cuda {

struct ForwardContext {
  const PlacedModel& model;
  const Stream& stream;
  const Matmul& matmul;
  const Buffers& buffers;

  const ModelSpec& spec() const { return model.spec(); }
  const Hyperparameters& hyper() const { return model.model->hyper; }
  const DeviceLayer& layer(int i) const { return model.gpu_layer(i); }
  int hidden() const { return int(spec().hidden); }
  /// The hidden state of the token in row `row` of the step.
  float* hidden_row(int row) const {
    return buffers.vectors.hidden + std::int64_t(row) * spec().hidden;
  }
};

/// Queues the hidden states of `tokens` tokens: their rows of the embedding, in the model's scale.
/// `ids` are on the GPU.
void embed(const ForwardContext& f, const std::int32_t* ids, int tokens);

/// True if what `block` and all behind it in the layer give a row depends on its hidden state
/// alone: rows that nobody asks for can be left out from there.
bool rows_are_apart(const DeviceLayer& w, FusedBlock block);

/// Queues that these rows of a step, each above the one before, become its first ones: their hidden
/// states and, of models that have them, their inputs of layers.
void keep_rows(const ForwardContext& f, std::span<const int> rows);

/// Queues the second half of the inputs of layers: vectors.layer_inputs, which hold products of the
/// embeddings of these tokens, become inputs.
void finish_inputs(const ForwardContext& f, const std::int32_t* ids, int tokens);

/// Queues the angles of the model's rotary embeddings for the `tokens` rows of a step.
void queue_rope_angles(const ForwardContext& f, int tokens, const StepRows& rows);

/// Queues the norms of vectors.projected that are over all heads of queries, or of keys, for its
/// first `tokens` rows. Before new_token_inputs() are used, which leave these out.
void norm_wide_heads(const ForwardContext& f, int layer, int tokens);

/// The norm of what a layer's attention reads, and that of what the head does.
Norm attention_norm(const ForwardContext& f, const DeviceLayer& w);
Norm final_norm(const ForwardContext& f);

/// Inputs for storing a layer's new tokens: vectors.projected holds contiguous rows [q | k | v].
NewTokenInputs new_token_inputs(const ForwardContext& f, int layer);

/// Rows of vectors.mixed as a layer's attention with a gate has them.
GatedRows gated_rows(const ForwardContext& f, const DeviceLayer& w);

/// What a recurrent layer's mixer takes of rows from `first` on.
MixerInputs mixer_inputs(const ForwardContext& f, const DeviceStates& states, int layer,
                         int first = 0);

/// The same of a layer with latent attention, whose projections are at latent_places() of
/// vectors.projected.
LatentRows latent_inputs(const ForwardContext& f, int layer, int tokens);

/// Memory of a batch's latent attention. Its rows are written over the projections, which are
/// queries by then.
LatentBatch latent_batch(const ForwardContext& f);

/// Rows of a step that are consecutive tokens of a sequence, which has `cached` tokens before them.
struct PromptRows {
  int first = 0, count = 0;
  TokenCount cached = 0;
};

/// The attention of these rows. Partial results are written over vectors.projected, which are keys,
/// values and queries by then.
PrefillAttention prompt_attention(const ForwardContext& f, int layer, const PromptRows& rows);

/// The bound of a layer's scores.
SoftCap soft_cap(const ForwardContext& f, int layer);

/// How a layer's experts are chosen.
ChoiceRule choice_rule(const ForwardContext& f, const DeviceLayer& w);

/// What the head's products become.
LogitRange logit_range(const ForwardContext& f);

}  // namespace rigcast::engine::cuda
