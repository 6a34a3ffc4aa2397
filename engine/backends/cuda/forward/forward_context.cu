#include "engine/backends/cuda/forward/forward_context.cuh"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/base/error.hpp"
#include "engine/backends/cuda/forward/buffer_sizes.hpp"
#include "engine/backends/cuda/forward/stages.cuh"
#include "engine/cuda/cuda_call.cuh"
#include "engine/kernels/cuda/activations/layer_inputs.cuh"
#include "engine/kernels/cuda/kv/rope_and_store.cuh"
#include "engine/kernels/cuda/weights/dequantize.cuh"
#include "engine/model/rope.hpp"

namespace rigcast::engine::cuda {
namespace {

// The angles of a rotary embedding, one of those that layers choose from.
RopeAngle* angles_of(const ForwardContext& f, int table) {
  const ActivationBuffers& v = f.buffers.vectors;
  return v.rope_cos_sin + std::int64_t(table) * v.tokens * most_rope_pairs(f.hyper());
}

// Queries or keys of all heads in vectors.projected: columns [first, first + width).
struct AllHeads {
  int first = 0, width = 0;
  const float *bias = nullptr, *norm = nullptr;
};
void norm_all_heads(const ForwardContext& f, int stride, int tokens, const AllHeads& x) {
  const Rows rows{f.buffers.vectors.projected + x.first, ValueType::kF32, stride};
  rms_norm(f.stream, {tokens, x.width}, rows, {{}, x.bias}, {x.norm, f.hyper().norm_eps}, rows);
}

void copy_floats(const ForwardContext& f, const float* from, float* to, std::int64_t count) {
  RIGCAST_CUDA_CALL(cudaMemcpyAsync(to, from, std::size_t(count) * sizeof(float),
                                    cudaMemcpyDeviceToDevice, f.stream.get()));
}

}  // namespace

void embed(const ForwardContext& f, const std::int32_t* ids, int tokens) {
  gather_rows(f.model.gpu.embedding, ids, tokens, f.hidden_row(0), f.stream);
  if (f.hyper().embedding_scale != 1)
    scale(f.stream, f.hidden_row(0), std::int64_t(tokens) * f.hidden(), f.hyper().embedding_scale);
}

// A parallel FFN reads attention's norm, whose rows are not moved.
bool rows_are_apart(const DeviceLayer& w, FusedBlock block) {
  const auto from = std::ranges::find(w.blocks, block);
  return !w.parallel_ffn && std::none_of(from, w.blocks.end(), mixes_tokens);
}

void keep_rows(const ForwardContext& f, std::span<const int> rows) {
  RIGCAST_ASSERT(std::ranges::adjacent_find(rows, std::greater_equal{}) == rows.end());
  const auto move = [&](float* values, std::int64_t width) {
    for (std::size_t to = 0; to < rows.size(); ++to)
      if (rows[to] != int(to))
        copy_floats(f, values + rows[to] * width, values + std::int64_t(to) * width, width);
  };
  move(f.hidden_row(0), f.hidden());
  if (f.model.gpu.input_projection)
    move(f.buffers.vectors.layer_inputs, f.model.gpu.input_projection.rows);
}

void finish_inputs(const ForwardContext& f, const std::int32_t* ids, int tokens) {
  const DeviceModel& m = f.model.gpu;
  const ActivationBuffers& v = f.buffers.vectors;
  const std::int64_t all = m.input_embedding.columns;
  const int layers = f.spec().layers, width = int(all / layers);
  const float scale = 1 / std::sqrt(float(f.hidden()));
  for (int first = 0; first < tokens; first += kOwnInputRows) {
    const int count = std::min(kOwnInputRows, tokens - first);
    gather_rows(m.input_embedding, ids + first, count, v.own_inputs, f.stream);
    finish_layer_inputs(f.stream,
                        {v.layer_inputs + first * all, v.own_inputs, count, layers, width},
                        m.input_norm, f.hyper().norm_eps, scale);
  }
}

void queue_rope_angles(const ForwardContext& f, int tokens, const StepRows& rows) {
  const std::vector<DeviceRopeTable>& tables = f.model.gpu.rope;
  for (std::size_t i = 0; i < tables.size(); ++i)
    compute_rope_angles(f.stream, tables[i].frequencies, tables[i].pairs, tokens, rows,
                        angles_of(f, int(i)), tables[i].magnitude);
}

void norm_wide_heads(const ForwardContext& f, int layer, int tokens) {
  const DeviceLayer& w = f.layer(layer);
  const int q = q_width(w.attention), stride = projected_width(w.attention, w.rule);
  if (w.wide_q_norm) norm_all_heads(f, stride, tokens, {0, q, w.q_bias, w.q_norm});
  if (w.wide_k_norm)
    norm_all_heads(f, stride, tokens, {q, kv_width(w.attention), w.k_bias, w.k_norm});
}

Norm attention_norm(const ForwardContext& f, const DeviceLayer& w) {
  return {w.attention_norm, f.hyper().norm_eps, w.layer_norm, w.attention_norm_bias};
}

Norm final_norm(const ForwardContext& f) {
  const DeviceModel& m = f.model.gpu;
  return {m.final_norm, f.hyper().norm_eps, f.hyper().layer_norm, m.final_norm_bias};
}

NewTokenInputs new_token_inputs(const ForwardContext& f, int layer) {
  const DeviceLayer& w = f.layer(layer);
  const Hyperparameters& hyper = f.hyper();
  const int q = q_width(w.attention), kv = kv_width(w.attention);
  const std::int64_t stride = projected_width(w.attention, w.rule);
  const float* const rows = f.buffers.vectors.projected;
  NewTokenInputs p;
  // A norm over all heads was computed before, and the bias before the norm.
  p.q = {rows, stride, w.wide_q_norm ? nullptr : w.q_bias};
  p.k = {rows + q, stride, w.wide_k_norm ? nullptr : w.k_bias};
  p.v = {w.keys_are_values ? rows + q : rows + q + kv, stride, w.v_bias};
  p.heads = w.attention.heads;
  p.q_norm = w.wide_q_norm ? nullptr : w.q_norm;
  p.k_norm = w.wide_k_norm ? nullptr : w.k_norm;
  p.norm_eps = hyper.norm_eps;
  p.layer_norms = w.layer_norm;
  p.stores = w.rule.kv_layer < 0;
  p.norms_rotated = w.rule.norms_rotated || w.rule.plain_norms;
  p.plain_norms = w.rule.plain_norms;
  p.plain_value_norms = w.norms_values;
  p.pairs = hyper.rope_pairs;
  if (w.rule.rope >= 0) {
    p.rope_dims = 2 * f.model.gpu.rope[std::size_t(w.rule.rope)].pairs;
    p.rope_cos_sin = angles_of(f, w.rule.rope);
  }
  p.score_scale = w.rule.score_scale;
  if (w.scales_by_position)
    p.temperature = {hyper.temperature, hyper.temperature_tokens, hyper.temperature_offset};
  return p;
}

GatedRows gated_rows(const ForwardContext& f, const DeviceLayer& w) {
  return {f.buffers.vectors.mixed, q_width(w.attention), kv_width(w.attention),
          int(w.attention.head_dim)};
}

MixerInputs mixer_inputs(const ForwardContext& f, const DeviceStates& states, int layer,
                         int first) {
  const DeviceLayer& w = f.layer(layer);
  const ActivationBuffers& v = f.buffers.vectors;
  return {v.mixed + first * mixed_width(w), v.convolved + first * w.mixer.convolved(),
          f.hyper().norm_eps, states.of(layer)};
}

LatentRows latent_inputs(const ForwardContext& f, int layer, int tokens) {
  const DeviceLayer& w = f.layer(layer);
  return latent_rows(w, f.hyper(), latent_places(w, f.buffers.vectors.projected, tokens),
                     angles_of(f, w.rule.rope));
}

LatentBatch latent_batch(const ForwardContext& f) {
  const Buffers& b = f.buffers;
  return {f.matmul, b.batch.x, b.vectors.queries, b.batch.weights,
          reinterpret_cast<__half*>(b.vectors.projected)};
}

PrefillAttention prompt_attention(const ForwardContext& f, int layer, const PromptRows& rows) {
  const DeviceLayer& w = f.layer(layer);
  const ActivationBuffers& v = f.buffers.vectors;
  PrefillAttention a;
  a.queries = v.queries + std::int64_t(rows.first) * q_width(w.attention);
  a.tokens = rows.count;
  a.heads = w.attention.heads;
  a.window = window_of(w.attention);
  a.cap = soft_cap(f, layer);
  a.sinks = w.sinks;
  a.partials = v.projected;
  a.partial_floats = v.projected_floats;
  a.context = int(rows.cached) + rows.count;
  return a;
}

SoftCap soft_cap(const ForwardContext& f, int layer) {
  return SoftCap::of(f.layer(layer).rule.softcap);
}

ChoiceRule choice_rule(const ForwardContext& f, const DeviceLayer& w) {
  return {f.hyper().routing, w.selection_bias, w.expert_scale};
}

LogitRange logit_range(const ForwardContext& f) {
  return {f.hyper().logit_scale, f.hyper().logit_softcap};
}

}  // namespace rigcast::engine::cuda
