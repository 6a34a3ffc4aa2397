#include "engine/backends/cuda/forward/batch_products.cuh"

#include <algorithm>
#include <initializer_list>
#include <span>
#include <vector>

#include "core/base/error.hpp"
#include "engine/backends/cuda/forward/branch.cuh"
#include "engine/backends/cuda/forward/joined_matrices.hpp"
#include "engine/kernels/cuda/activations/mlp_rows.cuh"
#include "engine/kernels/cuda/batch/small_batch_gemm.cuh"
#include "engine/kernels/cuda/hopper/tile_rows.cuh"
#include "engine/kernels/cuda/hopper/tiled_gemm.cuh"
#include "engine/kernels/cuda/weights/dequantize.cuh"

namespace rigcast::engine::cuda {
namespace {

using Matrices = std::initializer_list<const DeviceMatrix*>;

// True if the matrices are FP16 and contiguous, so that one product reads them without a copy.
// Those that the model does not have count as nothing.
bool are_contiguous(Matrices matrices) {
  const std::byte* at = nullptr;
  for (const DeviceMatrix* m : matrices) {
    if (m->rows == 0) continue;
    if (!at) at = m->soa;
    if (m->format != QuantFormat::kF16 || m->soa != at) return false;
    at += m->rows * m->columns * 2;
  }
  return true;
}

// FP16 elements that must be written before a product with these matrices; 0 if the model has none
// of them.
std::int64_t fp16_weights_to_write(Matrices matrices) {
  if (are_contiguous(matrices)) return 0;
  std::int64_t elements = 0;
  for (const DeviceMatrix* m : matrices) elements += m->rows * m->columns;
  return elements;
}

// The matrices' rows as one FP16 matrix: in place, or dequantized into batch.weights.
const void* joined(const ForwardContext& f, Matrices matrices) {
  if (are_contiguous(matrices)) return (*matrices.begin())->soa;
  __half* end = f.buffers.batch.weights;
  for (const DeviceMatrix* m : matrices) {
    dequantize(*m, {0, m->rows}, FloatType::kF16, end, f.stream);
    end += m->rows * m->columns;
  }
  return f.buffers.batch.weights;
}

struct Product {
  void* y = nullptr;  // [tokens][rows of all matrices]
  ValueType type = ValueType::kF32;
  bool add = false;           // accumulate into y
  const __half* x = nullptr;  // the batch's rows; null: those at batch.x
};

// Multiplies all matrices by the batch's rows.
void multiply(const ForwardContext& f, Matrices matrices, int tokens, const Product& to) {
  int rows = 0;
  for (const DeviceMatrix* m : matrices) rows += int(m->rows);
  f.matmul.multiply({rows, int((*matrices.begin())->columns), tokens},
                    {joined(f, matrices), to.x ? to.x : f.buffers.batch.x, ValueType::kF16, to.y,
                     to.type, to.add});
}

bool is_small_batch(const ForwardContext& f, int tokens, Matrices matrices) {
  return tokens <= f.buffers.small_batch.tokens &&
         std::ranges::all_of(
             matrices, [](const DeviceMatrix* m) { return supports_small_batch_gemm(m->format); });
}

// Products of tiled activations: buffers have room for whole tiles.
bool is_tiled(const ForwardContext& f, int tokens, Matrices matrices) {
  return tokens <= kMaxTiledTokens && padded_tokens(tokens) <= f.buffers.vectors.tokens &&
         has_tiled_gemm() && std::ranges::all_of(matrices, [](const DeviceMatrix* m) {
           return supports_tiled_gemm(m->format) && m->columns % kTileColumns == 0;
         });
}

// True if rows of batch.x can be tiled: they are written behind these.
bool has_room_to_tile(const ForwardContext& f, int tokens, std::int64_t columns) {
  return (tokens + padded_tokens(tokens)) * columns <= f.buffers.batch.x_values;
}

// True if a matrix takes rows of batch.x tiled.
bool takes_tiled_rows(const ForwardContext& f, int tokens, const DeviceMatrix& w) {
  return is_tiled(f, tokens, {&w}) && has_room_to_tile(f, tokens, w.columns);
}

// The first rows of batch.x, tiled; has_room_to_tile().
TiledBatch tiled_rows(const ForwardContext& f, int tokens, std::int64_t columns) {
  RIGCAST_ASSERT(has_room_to_tile(f, tokens, columns));
  __half* const to = f.buffers.batch.x + tokens * columns;
  tile_rows(f.stream, {f.buffers.batch.x, tokens}, columns, to);
  return {to, tokens};
}

// to = the norm of the first rows of vectors.hidden, row by row. Without a weight: these rows as
// they are.
const __half* norm(const ForwardContext& f, const Norm& by, int tokens, __half* to) {
  if (by.weight)
    norm_rows(f, 0, tokens, by, {to, ValueType::kF16, f.hidden()});
  else
    to_fp16(f.stream, f.hidden_row(0), std::int64_t(tokens) * f.hidden(), to);
  return to;
}

// The same, tiled. Without a weight: at batch.x.
TiledBatch tiled_norm(const ForwardContext& f, const Norm& by, int tokens, __half* to) {
  if (!by.weight) {
    norm(f, by, tokens, f.buffers.batch.x);
    return tiled_rows(f, tokens, f.hidden());
  }
  rms_norm_tiled(f.stream, {tokens, f.hidden()}, {f.hidden_row(0), ValueType::kF32, f.hidden()}, by,
                 to);
  return {to, tokens};
}

// Where attention's norm is written. One that the FFN or a mixer reads as well must outlive
// attention, whose output takes batch.x; no other kernel of such a layer uses vectors.normed
// before.
__half* place_of_norm(const ForwardContext& f, const DeviceLayer& w) {
  return w.parallel_ffn || w.parallel_mixer ? reinterpret_cast<__half*>(f.buffers.vectors.normed)
                                            : f.buffers.batch.x;
}

// The matrices whose products are keys and values. Where a layer has no values of its own, keys are
// values; one without either attends to another layer's cache: queries stand for them.
const DeviceMatrix& key_matrix(const DeviceLayer& w) { return w.k ? w.k : w.q; }
const DeviceMatrix& value_matrix(const DeviceLayer& w) { return w.v ? w.v : key_matrix(w); }

bool has_tiled_qkv(const ForwardContext& f, const DeviceLayer& w, int tokens) {
  return is_tiled(f, tokens, {&w.q, &key_matrix(w), &value_matrix(w)});
}
bool has_tiled_ffn(const ForwardContext& f, int tokens, const DeviceMatrix& gate,
                   const DeviceMatrix& up, const DeviceMatrix& down) {
  if (!gate)
    return tokens <= f.buffers.small_batch.tokens && up.rows % kTileColumns == 0 &&
           is_tiled(f, tokens, {&up, &down});
  return gate.format == up.format && is_tiled(f, tokens, {&gate, &up}) && takes_tiled_columns(down);
}
bool has_tiled_ffn(const ForwardContext& f, const DeviceLayer& w, int tokens) {
  return has_tiled_ffn(f, tokens, w.gate, w.up, w.down);
}
// A norm that attention and the FFN or a mixer both read is tiled for both, or for neither. Rows
// that have none are tiled as they are; those of a parallel FFN are there already.
bool has_tiled_norm(const ForwardContext& f, const DeviceLayer& w, const Norm& by, int tokens,
                    bool own) {
  if (!by.weight && !w.parallel_ffn && !has_room_to_tile(f, tokens, f.hidden())) return false;
  if (w.parallel_mixer && !(has_tiled_qkv(f, w, tokens) && is_tiled(f, tokens, {&w.mixer_in})))
    return false;
  return own && (!w.parallel_ffn || (has_tiled_qkv(f, w, tokens) && has_tiled_ffn(f, w, tokens)));
}

// A matrix whose products with a batch go to a branch of the layer.
struct BranchMatrix {
  const DeviceMatrix& w;
  const float* bias = nullptr;
  FfnRows out;
};
BranchMatrix of_branch(const DeviceMatrix& w, const float* bias, const Branch& branch) {
  return {w, bias, {branch.to(), branch.adds()}};
}
void add_tiled(const ForwardContext& f, const BranchMatrix& m, const TiledBatch& x, Start start) {
  const SmallBatchJob job{m.w, m.out.to, m.bias};
  tiled_gemm({&job, 1}, x, {f.hidden(), m.out.adds}, f.stream, start);
}
void add_small_batch(const ForwardContext& f, const BranchMatrix& m, const Fp16Batch& x) {
  const SmallBatchJob job{m.w, m.out.to, m.bias};
  small_batch_gemm({&job, 1}, x, {f.hidden(), m.out.adds}, f.stream);
}
// Of the rows at batch.x.
void add_large_batch(const ForwardContext& f, const BranchMatrix& m, int tokens) {
  float* const to = m.out.to;
  multiply(f, {&m.w}, tokens, {to, ValueType::kF32, m.out.adds});
  if (m.bias)
    add_rows(f.stream, {tokens, f.hidden()}, {to, ValueType::kF32, f.hidden()}, {{}, m.bias});
}

// The output matrix times batch.x, which may be tiled. Tiles start after attention. Where kernels
// of a whole layer may start early, blocks that wait for their inputs take the places of those that
// have them: a step of 8 sequences of an 8B model took 3.9 ms instead of 3.2, of 2 of a 3B model
// 3.3 instead of 2.1 (H100).
void multiply_attention(const ForwardContext& f, const BranchMatrix& m, int tokens, bool tiled) {
  if (tiled) return add_tiled(f, m, {f.buffers.batch.x, tokens}, Start::kAfter);
  if (takes_tiled_rows(f, tokens, m.w))
    return add_tiled(f, m, tiled_rows(f, tokens, m.w.columns), Start::kAfter);
  if (is_small_batch(f, tokens, {&m.w})) return add_small_batch(f, m, {f.buffers.batch.x, tokens});
  add_large_batch(f, m, tokens);
}

// The first matrix of an FFN without a gate, and what is done with its products, which are F32.
struct Mlp {
  const DeviceMatrix& up;
  MlpRows then;

  MlpRows of(const float* sums) const {
    MlpRows rows = then;
    rows.x = sums;
    return rows;
  }
};
Mlp mlp_of(const DeviceLayer& w) { return {w.up, {nullptr, w.up_bias, w.mlp_function}}; }

// The FFN without a gate of tiled rows.
void multiply_tiled_mlp(const ForwardContext& f, const Mlp& w, const TiledBatch& x,
                        const BranchMatrix& down) {
  float* const sums = f.buffers.small_batch.gate_out;
  __half* const hidden = f.buffers.batch.ffn_hidden;
  const SmallBatchJob up{w.up, sums};
  tiled_gemm({&up, 1}, x, {w.up.rows}, f.stream);
  apply_mlp(f.stream, {x.tokens, int(w.up.rows)}, w.of(sums), hidden, tiled_tokens(x.tokens));
  add_tiled(f, down, {hidden, x.tokens}, Start::kEarly);
}

// The same of rows one after the other.
void multiply_mlp(const ForwardContext& f, const Mlp& w, const Fp16Batch& x,
                  const BranchMatrix& down) {
  const PrefillBuffers& batch = f.buffers.batch;
  const Batch shape{x.tokens, int(w.up.rows)};
  if (is_small_batch(f, x.tokens, {&w.up, &down.w})) {
    const SmallBatchJob up{w.up, f.buffers.small_batch.gate_out};
    small_batch_gemm({&up, 1}, x, {w.up.rows}, f.stream);
    apply_mlp(f.stream, shape, w.of(up.out), batch.ffn_hidden);
    return add_small_batch(f, down, {batch.ffn_hidden, x.tokens});
  }
  // As wide as gate and up in F16.
  auto* const sums = reinterpret_cast<float*>(batch.ffn_hidden);
  multiply(f, {&w.up}, x.tokens, {sums, ValueType::kF32, false, x.x});
  apply_mlp(f.stream, shape, w.of(sums), batch.x);
  add_large_batch(f, down, x.tokens);
}

// The first two matrices of an FFN with a gate.
struct GateUp {
  const DeviceMatrix &gate, &up;
  GateFunction function;
};

void multiply_tiled_ffn(const ForwardContext& f, const GateUp& w, const TiledBatch& x,
                        const BranchMatrix& down) {
  __half* const hidden = f.buffers.batch.ffn_hidden;
  tiled_gate_up(w.gate, w.up, x, hidden, f.stream, w.function);
  add_tiled(f, down, {hidden, x.tokens}, Start::kEarly);
}

// The same of rows one after the other.
void multiply_ffn_of_rows(const ForwardContext& f, const GateUp& w, const __half* x, int tokens,
                          const BranchMatrix& down) {
  const PrefillBuffers& batch = f.buffers.batch;
  if (is_small_batch(f, tokens, {&w.gate, &w.up, &down.w})) {
    small_batch_gate_up(w.gate, w.up, {x, tokens}, f.buffers.small_batch.gate_out, batch.ffn_hidden,
                        f.stream, {}, w.function);
    return add_small_batch(f, down, {batch.ffn_hidden, tokens});
  }
  const int width = int(w.gate.rows), both = 2 * width;
  multiply(f, {&w.gate, &w.up}, tokens, {batch.ffn_hidden, ValueType::kF16, false, x});
  gate_times(f.stream, {tokens, width}, {batch.ffn_hidden, ValueType::kF16, both},
             {batch.ffn_hidden + width, ValueType::kF16, both}, {batch.x, ValueType::kF16, width},
             w.function);
  add_large_batch(f, down, tokens);
}

// Rows of products, `stride` values apart: as many as all matrices have rows.
struct Projected {
  float* to = nullptr;
  std::int64_t stride = 0;
};

// A norm of the first rows of vectors.hidden, and where it goes.
struct PlacedNorm {
  Norm by;
  __half* to = nullptr;
  bool is_there = false;  // attention has written it
};

// Multiplies all matrices by the norm of the first rows of vectors.hidden. A matrix that is there
// twice, one behind the other, need not be multiplied twice.
void project(const ForwardContext& f, const PlacedNorm& input, Matrices matrices, int tokens,
             bool tiled, const Projected& y) {
  std::vector<SmallBatchJob> all;
  float* to = y.to;
  for (const DeviceMatrix* m : matrices) {
    if (all.empty() || all.back().w.soa != m->soa) all.push_back({*m, to});
    to += m->rows;
  }
  const auto by_launches = [&](const auto& multiply_jobs) {
    for (std::span<const SmallBatchJob> jobs = all; !jobs.empty();
         jobs = jobs.subspan(std::min(jobs.size(), kMaxJobs)))
      multiply_jobs(jobs.first(std::min(jobs.size(), kMaxJobs)));
  };
  if (tiled) {
    const TiledBatch x =
        input.is_there ? TiledBatch{input.to, tokens} : tiled_norm(f, input.by, tokens, input.to);
    return by_launches(
        [&](std::span<const SmallBatchJob> jobs) { tiled_gemm(jobs, x, {y.stride}, f.stream); });
  }
  const __half* const x = input.is_there ? input.to : norm(f, input.by, tokens, input.to);
  if (!is_small_batch(f, tokens, matrices))
    return multiply(f, matrices, tokens, {y.to, ValueType::kF32, false, x});
  by_launches([&](std::span<const SmallBatchJob> jobs) {
    small_batch_gemm(jobs, {x, tokens}, {y.stride}, f.stream);
  });
}

// The FFN of the layer's norm of the first rows of vectors.hidden.
void multiply_ffn(const ForwardContext& f, const DeviceLayer& w, int tokens,
                  const BranchMatrix& down) {
  const Norm by{w.ffn_norm, f.hyper().norm_eps};
  const GateUp first{w.gate, w.up, w.gate_function};
  __half* const place = place_of_norm(f, w);
  if (has_tiled_norm(f, w, by, tokens, has_tiled_ffn(f, w, tokens))) {
    const TiledBatch x =
        w.parallel_ffn ? TiledBatch{place, tokens} : tiled_norm(f, by, tokens, place);
    return w.gate ? multiply_tiled_ffn(f, first, x, down)
                  : multiply_tiled_mlp(f, mlp_of(w), x, down);
  }
  const __half* const x = w.parallel_ffn ? place : norm(f, by, tokens, place);
  w.gate ? multiply_ffn_of_rows(f, first, x, tokens, down)
         : multiply_mlp(f, mlp_of(w), {x, tokens}, down);
}

}  // namespace

std::int64_t fp16_weights_for_batch(const DeviceModel& model) {
  std::int64_t most = fp16_weights_to_write({&model.input_projection});
  for (const DeviceLayer& w : model.layers)
    for_each_product(
        w, [&](Matrices joined) { most = std::max(most, fp16_weights_to_write(joined)); });
  return most;
}

void norm_rows(const ForwardContext& f, int first, int tokens, const Norm& norm, const Rows& to) {
  rms_norm(f.stream, {tokens, f.hidden()}, {f.hidden_row(first), ValueType::kF32, f.hidden()}, {},
           norm, to);
}
void norm_rows(const ForwardContext& f, int first, int tokens, const float* weight,
               const Rows& to) {
  norm_rows(f, first, tokens, Norm{weight, f.hyper().norm_eps}, to);
}

namespace {

// One product of the rows at batch.x.
void multiply_rows(const ForwardContext& f, const DeviceMatrix& w, int tokens, float* to) {
  const SmallBatchJob job{w, to};
  if (takes_tiled_rows(f, tokens, w))
    return tiled_gemm({&job, 1}, tiled_rows(f, tokens, w.columns), {w.rows}, f.stream);
  if (!is_small_batch(f, tokens, {&w})) return multiply(f, {&w}, tokens, {to});
  small_batch_gemm({&job, 1}, {f.buffers.batch.x, tokens}, {w.rows}, f.stream);
}

// The projections of latent attention, at latent_places().
void project_latent(const ForwardContext& f, const DeviceLayer& w, int tokens) {
  const LatentPlaces at = latent_places(w, f.buffers.vectors.projected, tokens);
  const DeviceMatrix& first = first_of_queries(w);
  const SmallBatchJob jobs[] = {{first, at.first}, {w.kv_a, at.rows}};
  const Norm by = attention_norm(f, w);
  __half* const x = f.buffers.batch.x;
  if (is_tiled(f, tokens, {&first, &w.kv_a})) {
    tiled_gemm(jobs, tiled_norm(f, by, tokens, x), {at.width}, f.stream);
  } else {
    norm(f, by, tokens, x);
    if (is_small_batch(f, tokens, {&first, &w.kv_a}))
      small_batch_gemm(jobs, {x, tokens}, {at.width}, f.stream);
    else
      multiply(f, {&first, &w.kv_a}, tokens, {at.first});
  }
  if (!w.q_a) return;
  const int compressed = int(w.q_a.rows);
  rms_norm(f.stream, {tokens, compressed}, {at.first, ValueType::kF32, at.width}, {},
           {w.q_a_norm, f.hyper().norm_eps}, {x, ValueType::kF16, compressed});
  multiply_rows(f, w.q_b, tokens, at.queries);
}

}  // namespace

void project_qkv(const ForwardContext& f, const DeviceLayer& w, int tokens) {
  if (w.latent) return project_latent(f, w, tokens);
  const ActivationBuffers& v = f.buffers.vectors;
  const std::int64_t stride =
      qkv_width(w.attention) + (w.attention_gate ? q_width(w.attention) : 0);
  const PlacedNorm by{attention_norm(f, w), place_of_norm(f, w)};
  const bool tiled = has_tiled_norm(f, w, by.by, tokens, has_tiled_qkv(f, w, tokens));
  // Without keys of its own: it attends to another layer's cache.
  if (!w.k) return project(f, by, {&w.q}, tokens, tiled, {v.projected, q_width(w.attention)});
  project(f, by, {&w.q, &w.k, &value_matrix(w)}, tokens, tiled,
          {w.attention_gate ? v.mixed : v.projected, stride});
  if (w.attention_gate) take_queries(f.stream, gated_rows(f, w), tokens, v.projected);
}

void project_mixer(const ForwardContext& f, const DeviceLayer& w, int tokens) {
  const PlacedNorm by{attention_norm(f, w), place_of_norm(f, w), w.parallel_mixer};
  const Projected to{f.buffers.vectors.mixed, mixed_width(w)};
  const auto project_all = [&](Matrices matrices) {
    project(f, by, matrices, tokens,
            has_tiled_norm(f, w, by.by, tokens, is_tiled(f, tokens, matrices)), to);
  };
  if (w.mixer_alpha)
    project_all({&w.mixer_in, &w.mixer_gate, &w.mixer_alpha, &w.mixer_beta});
  else if (w.mixer_gate)
    project_all({&w.mixer_in, &w.mixer_gate, &w.mixer_beta});
  else if (w.mixer_beta)
    project_all({&w.mixer_in, &w.mixer_beta});
  else
    project_all({&w.mixer_in});
}

bool takes_tiled_attention(const ForwardContext& f, const DeviceLayer& w, int tokens) {
  return !w.attention_gate && is_tiled(f, tokens, {&w.output});
}

void add_attention_output(const ForwardContext& f, const DeviceLayer& w, int tokens, bool tiled) {
  const Branch branch(f, w.attention_post_norm);
  multiply_attention(f, of_branch(w.output, w.output_bias, branch), tokens, tiled);
  branch.finish(tokens);
}

void add_mixer_output(const ForwardContext& f, const DeviceLayer& w, int tokens) {
  const Branch branch(f, w.attention_post_norm);
  multiply_attention(f, of_branch(w.mixer_out, nullptr, branch), tokens, false);
  branch.finish(tokens);
}

void add_ffn(const ForwardContext& f, const DeviceLayer& w, int tokens) {
  const Branch branch(f, w.ffn_post_norm, 0, w.scale);
  multiply_ffn(f, w, tokens, of_branch(w.down, w.down_bias, branch));
  branch.finish(tokens);
}

void multiply_shared_expert(const ForwardContext& f, const DeviceLayer& w, int tokens,
                            const FfnRows& out) {
  const GateUp first{w.first_of_shared(), w.shared_up, w.gate_function};
  const BranchMatrix down{w.shared_down, nullptr, out};
  if (has_tiled_ffn(f, tokens, w.first_of_shared(), w.shared_up, w.shared_down) &&
      has_room_to_tile(f, tokens, f.hidden()))
    return multiply_tiled_ffn(f, first, tiled_rows(f, tokens, f.hidden()), down);
  multiply_ffn_of_rows(f, first, f.buffers.batch.x, tokens, down);
}

void make_layer_inputs(const ForwardContext& f, const std::int32_t* ids, int tokens) {
  const DeviceMatrix& w = f.model.gpu.input_projection;
  if (!w) return;
  const SmallBatchJob job{w, f.buffers.vectors.layer_inputs};
  const __half* const x = norm(f, {}, tokens, f.buffers.batch.x);
  if (takes_tiled_rows(f, tokens, w))
    tiled_gemm({&job, 1}, tiled_rows(f, tokens, f.hidden()), {w.rows}, f.stream);
  else if (is_small_batch(f, tokens, {&w}))
    small_batch_gemm({&job, 1}, {x, tokens}, {w.rows}, f.stream);
  else
    multiply(f, {&w}, tokens, {job.out});
  finish_inputs(f, ids, tokens);
}

void add_layer_input(const ForwardContext& f, const DeviceLayer& w, int layer, int tokens) {
  const int width = int(w.input_gate.rows);
  const float* const inputs = f.buffers.vectors.layer_inputs + std::int64_t(layer) * width;
  const Mlp gate{w.input_gate,
                 {nullptr, nullptr, MlpFunction{}, inputs, f.model.gpu.input_projection.rows}};
  const Branch branch(f, w.input_norm, 0, w.input_scale);
  const BranchMatrix projection = of_branch(w.input_projection, nullptr, branch);
  const __half* const x = norm(f, {}, tokens, f.buffers.batch.x);
  if (has_tiled_ffn(f, tokens, {}, w.input_gate, w.input_projection) &&
      has_room_to_tile(f, tokens, f.hidden()))
    multiply_tiled_mlp(f, gate, tiled_rows(f, tokens, f.hidden()), projection);
  else
    multiply_mlp(f, gate, {x, tokens}, projection);
  branch.finish(tokens);
}

void multiply_head(const ForwardContext& f, int rows, float* logits) {
  const DeviceMatrix& w = f.model.gpu.head;
  const int vocabulary = int(f.spec().vocabulary);
  const float* const bias = f.model.gpu.head_bias;
  const SmallBatchJob job{w, logits, bias};
  if (takes_tiled_rows(f, rows, w)) {
    tiled_gemm({&job, 1}, tiled_rows(f, rows, w.columns), {vocabulary}, f.stream);
  } else if (has_small_batch_gemm() && supports_small_batch_gemm(w.format)) {
    small_batch_gemm({&job, 1}, {f.buffers.batch.x, rows}, {vocabulary}, f.stream);
  } else {
    f.matmul.multiply({vocabulary, f.hidden(), rows},
                      {w.soa, f.buffers.batch.x, ValueType::kF16, logits, ValueType::kF32, false});
    if (bias)
      add_rows(f.stream, {rows, vocabulary}, {logits, ValueType::kF32, vocabulary}, {{}, bias});
  }
  bound_logits(f.stream, logits, std::int64_t(rows) * vocabulary, logit_range(f));
}

}  // namespace rigcast::engine::cuda
