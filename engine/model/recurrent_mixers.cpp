#include "engine/model/recurrent_mixers.hpp"

#include <string>
#include <string_view>
#include <utility>

#include "core/base/error.hpp"

namespace rigcast::engine {
namespace {

using Tensors = std::vector<Tensor>;
using Role = TensorRole;

// What all published models have; Mamba 2 has states of one of two sizes.
constexpr std::int64_t kConvolvedTokens = 4;
constexpr std::int64_t kStateSize = 128;
constexpr std::int64_t kMambaStates[] = {kStateSize, 256};
// Of a short convolution, as in read_spec.cpp: backends have room for so many.
constexpr std::int64_t kMaxConvolvedTokens = 64;

bool only_convolves(const ModelSpec& m) {
  return m.architecture == "lfm2" || m.architecture == "lfm2moe";
}
// Its files have two matrices each for what others have in one.
bool splits_matrices(const ModelSpec& m) {
  return m.architecture == "qwen35" || m.architecture == "qwen35moe";
}
bool is_delta_net(const ModelSpec& m) {
  return m.architecture == "qwen3next" || splits_matrices(m);
}
bool is_normed(const ModelSpec& m) { return m.architecture != "falcon-h1"; }

// Counts of the spec: values of a state, weights that are never quantised, rows of the matrices.
struct Counts {
  std::int64_t state, vectors, rows;
};

Counts counts_of(const ModelSpec& m) {
  const RecurrentLayers& r = *m.recurrent;
  return {r.state_bytes / 4, r.layer_f32_parameters,
          (r.layer_parameters - r.layer_f32_parameters) / m.hidden};
}

// Mamba 2, of inner size i, convolved width c, h heads, states of s, and n = 1 if there is a norm:
//   state = s i + 3 c      rows = 2 i + c + h      vectors = 5 c + 3 h + n i
MixerWidths mamba_2(const ModelSpec& m, std::int64_t state) {
  const Counts n = counts_of(m);
  const std::int64_t norm = is_normed(m) ? 1 : 0;
  MixerWidths w{.conv_kernel = kConvolvedTokens, .state_size = state};
  w.inner_size = (2 * n.state - 3 * (n.vectors - 3 * n.rows)) / (2 * state + 18 - 3 * norm);
  const std::int64_t convolved = (n.state - state * w.inner_size) / 3;
  w.time_step_rank = n.rows - 2 * w.inner_size - convolved;
  w.group_count = (convolved - w.inner_size) / (2 * state);
  return w;
}

// A gated delta net, of i / 128 heads and the same convolved width:
//   state = 128 i + 3 c      vectors = 4 c + 2 i / 128 + 128
MixerWidths delta_net(const ModelSpec& m) {
  const Counts n = counts_of(m);
  MixerWidths w{.conv_kernel = kConvolvedTokens, .state_size = kStateSize};
  w.inner_size = (256 * n.state - 192 * (n.vectors - kStateSize)) / (256 * kStateSize - 3);
  w.time_step_rank = w.inner_size / kStateSize;
  const std::int64_t convolved = (n.state - kStateSize * w.inner_size) / 3;
  w.group_count = (convolved - w.inner_size) / (2 * kStateSize);
  return w;
}

// Names and shapes of tensors in the layer of a stand-in.
class Layer {
 public:
  Layer(const Tensor& stand_in) : stand_in_(stand_in) {}

  void in(std::string_view name, std::int64_t columns, std::int64_t rows) {
    add(name, Role::kRecurrent, {columns, rows}, 2, stand_in_.format);
  }
  void out(std::string_view name, std::int64_t columns, std::int64_t rows) {
    add(name, Role::kAttentionOutput, {columns, rows}, 2, stand_in_.format);
  }
  /// F32, of one or two dimensions.
  void floats(std::string_view name, Role role, std::int64_t columns, std::int64_t rows = 0) {
    add(name, role, {columns, rows > 0 ? rows : 1}, rows > 0 ? 2 : 1, QuantFormat::kF32);
  }

  Tensors tensors;

 private:
  struct Shape {
    std::int64_t columns, rows;
  };
  void add(std::string_view name, Role role, Shape shape, int dimensions, QuantFormat format) {
    Tensor t = stand_in_;
    t.name = "blk." + std::to_string(t.layer) + "." + std::string(name);
    t.role = role;
    t.shape = {std::uint64_t(shape.columns), std::uint64_t(shape.rows), 1};
    t.dimensions = dimensions;
    t.format = format;
    t.bytes = tensor_bytes(t.format, t.shape[0], t.shape[1]);
    tensors.push_back(std::move(t));
  }
  const Tensor& stand_in_;
};

void matrices(const ModelSpec& m, const MixerWidths& w, Layer& layer) {
  if (only_convolves(m)) {
    layer.in("shortconv.in_proj.weight", m.hidden, 3 * m.hidden);
    return layer.out("shortconv.out_proj.weight", m.hidden, m.hidden);
  }
  if (splits_matrices(m)) {
    layer.in("attn_qkv.weight", m.hidden, w.convolved());
    layer.in("attn_gate.weight", m.hidden, w.inner_size);
    layer.in("ssm_alpha.weight", m.hidden, w.time_step_rank);
    layer.in("ssm_beta.weight", m.hidden, w.time_step_rank);
    return layer.out("ssm_out.weight", w.inner_size, m.hidden);
  }
  // Into a gate and what is convolved, and values of each head: its time step, or two gates.
  const std::int64_t in = w.inner_size + w.convolved();
  layer.in("ssm_in.weight", m.hidden, is_delta_net(m) ? in : in + w.time_step_rank);
  if (is_delta_net(m)) layer.in("ssm_ba.weight", m.hidden, 2 * w.time_step_rank);
  layer.out("ssm_out.weight", w.inner_size, m.hidden);
}

void vectors(const ModelSpec& m, const MixerWidths& w, Layer& layer) {
  if (only_convolves(m))
    return layer.floats("shortconv.conv.weight", Role::kRecurrent, w.conv_kernel, m.hidden);
  layer.floats("ssm_conv1d.weight", Role::kRecurrent, w.conv_kernel, w.convolved());
  layer.floats("ssm_dt.bias", Role::kBias, w.time_step_rank);
  if (is_delta_net(m)) {
    layer.floats("ssm_a", Role::kRecurrent, w.time_step_rank);
    return layer.floats("ssm_norm.weight", Role::kNorm, w.state_size);
  }
  layer.floats("ssm_conv1d.bias", Role::kBias, w.convolved());
  layer.floats("ssm_a", Role::kRecurrent, 1, w.time_step_rank);
  layer.floats("ssm_d", Role::kNorm, 1, w.time_step_rank);
  if (is_normed(m))
    layer.floats("ssm_norm.weight", Role::kNorm, w.inner_size / w.group_count, w.group_count);
}

Tensors all_tensors(const ModelSpec& m, const MixerWidths& w, const Tensor& stand_in) {
  Layer layer(stand_in);
  stand_in.dimensions > 1 ? matrices(m, w, layer) : vectors(m, w, layer);
  return layer.tensors;
}

// Heads are of one width, and groups of as many of them.
bool is_whole(const ModelSpec& m, const MixerWidths& w) {
  if (w.inner_size <= 0 || w.time_step_rank <= 0 || w.group_count <= 0) return false;
  return w.inner_size % w.time_step_rank == 0 && w.time_step_rank % w.group_count == 0 &&
         (!is_delta_net(m) || w.inner_size == w.time_step_rank * w.state_size);
}

// True if a layer of these widths has the spec's numbers of weights and of values in a state.
bool has_counts(const ModelSpec& m, const MixerWidths& w) {
  const RecurrentLayers counts = recurrent_layers(m, w);
  return counts.layer_parameters == m.recurrent->layer_parameters &&
         counts.state_bytes == m.recurrent->state_bytes;
}

MixerWidths widths_of(const ModelSpec& m) {
  // A short convolution has as many weights for each value, and all else is quantised.
  if (only_convolves(m)) return {.conv_kernel = m.recurrent->layer_f32_parameters / m.hidden};
  if (is_delta_net(m)) return delta_net(m);
  for (const std::int64_t state : kMambaStates)
    if (const MixerWidths w = mamba_2(m, state); is_whole(m, w) && has_counts(m, w)) return w;
  return mamba_2(m, kStateSize);
}

}  // namespace

RecurrentLayers recurrent_layers(const ModelSpec& m, const MixerWidths& w) {
  Tensor matrix, vector;
  matrix.dimensions = 2;
  matrix.format = vector.format = QuantFormat::kF32;  // rows of any width
  const auto elements = [&](const Tensor& stand_in) {
    std::int64_t sum = 0;
    for (const Tensor& t : all_tensors(m, w, stand_in)) sum += std::int64_t(t.elements());
    return sum;
  };
  const std::int64_t channels = only_convolves(m) ? m.hidden : w.convolved();
  const std::int64_t floats = w.state_size * w.inner_size + (w.conv_kernel - 1) * channels;
  RecurrentLayers out;
  out.state_bytes = 4 * floats;
  out.layer_f32_parameters = elements(vector);
  out.layer_parameters = elements(matrix) + out.layer_f32_parameters;
  return out;
}

std::optional<MixerWidths> mixer_widths(const ModelSpec& m) {
  RIGCAST_ASSERT(m.recurrent);
  const MixerWidths w = widths_of(m);
  if (!only_convolves(m) && !is_whole(m, w)) return std::nullopt;
  if (w.conv_kernel < 2 || w.conv_kernel > kMaxConvolvedTokens || !has_counts(m, w))
    return std::nullopt;
  return w;
}

std::vector<Tensor> mixer_tensors(const ModelSpec& m, const Tensor& stand_in) {
  return all_tensors(m, widths_of(m), stand_in);
}

}  // namespace rigcast::engine
