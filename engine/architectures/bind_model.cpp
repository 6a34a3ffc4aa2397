#include "engine/architectures/bind_model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <type_traits>
#include <utility>

#include "engine/architectures/architecture.hpp"
#include "engine/architectures/decoder_layer.hpp"
#include "engine/model/layer_weights.hpp"
#include "engine/model/recurrent_mixers.hpp"

namespace rigcast::engine {
namespace {

using Shape = std::vector<std::int64_t>;

// What turns of a head: of the narrowest of those that turn alike.
std::optional<Error> check_turned(const ModelSpec& m, const Hyperparameters& h) {
  const auto check = [&](int dims, std::int64_t width) -> std::optional<Error> {
    if (dims >= 2 && dims % 2 == 0 && dims <= width) return std::nullopt;
    return bad_input(fmt::format("{}: {} of {} elements of a head turn", m.name, dims, width),
                     "expected an even number, no more than a head has");
  };
  const int local = h.local_rope_dims > 0 ? h.local_rope_dims : h.rope_dims;
  for (int layer = 0; layer < m.layers; ++layer) {
    const bool is_local = h.local_rope_base > 0 && !m.sees_all_tokens(layer);
    if (auto error = check(is_local ? local : h.rope_dims, m.head_dim_of(layer))) return error;
  }
  return std::nullopt;
}

// A group's two best experts count, and those of the used groups are enough for a choice.
std::optional<Error> check_routing(const ModelSpec& m, const ExpertRouting& r) {
  if (r.groups == 1 && r.groups_used == 1) return std::nullopt;
  const bool sound = m.moe && r.groups >= 1 && r.groups_used >= 1 && r.groups_used <= r.groups &&
                     m.moe->experts % r.groups == 0 && m.moe->experts / r.groups >= 2 &&
                     m.moe->experts / r.groups * r.groups_used >= m.moe->experts_used;
  if (sound) return std::nullopt;
  return bad_input(fmt::format("{}: experts in {} groups of which {} are used make no sense",
                               m.name, r.groups, r.groups_used));
}

std::optional<Error> check_hyper(const ModelSpec& m, const Hyperparameters& h) {
  const auto positive = [](float x) { return std::isfinite(x) && x > 0; };
  const auto not_negative = [](float x) { return std::isfinite(x) && x >= 0; };
  if (!(not_negative(h.norm_eps) && positive(h.rope_base) && positive(h.rope_scale) &&
        positive(h.rope_magnitude) && not_negative(h.local_rope_base)))
    return bad_input(fmt::format("{}: norm epsilon {}, rope base {} and scale {} make no sense",
                                 m.name, h.norm_eps, h.rope_base, h.rope_scale));
  if (h.yarn && !(positive(h.yarn->context) && positive(h.yarn->fast) && positive(h.yarn->slow) &&
                  h.rope_base > 1))
    return bad_input(
        fmt::format("{}: YaRN of a context of {} tokens makes no sense", m.name, h.yarn->context));
  const bool sound_scales = positive(h.embedding_scale) && positive(h.residual_scale) &&
                            positive(h.logit_scale) && not_negative(h.score_scale) &&
                            not_negative(h.score_softcap) && not_negative(h.logit_softcap) &&
                            not_negative(h.temperature) && h.temperature_tokens >= 1 &&
                            positive(h.routing.scale);
  if (!sound_scales)
    return bad_input(
        fmt::format("{}: its scales of embedding, residual, scores, experts or logits "
                    "make no sense",
                    m.name));
  if (auto error = check_routing(m, h.routing)) return error;
  if (auto error = check_turned(m, h)) return error;
  for (const Xielu& x : h.xielu)
    if (!std::isfinite(x.positive) || !std::isfinite(x.negative) || !std::isfinite(x.beta) ||
        !std::isfinite(x.eps))
      return bad_input(fmt::format("{}: its activation is not of numbers", m.name));
  return std::nullopt;
}

// True for the tensors of a file that a model may ignore; all others must be used. Layers behind
// the last draft tokens, which no forward pass of the model needs.
bool is_ignored(const ModelSpec& m, std::string_view name) {
  for (int layer = m.layers; layer < m.layers + m.nextn_layers; ++layer)
    if (name.starts_with(fmt::format("blk.{}.", layer))) return true;
  return name.ends_with(".attn_rot_embd.weight") || name.ends_with(".rotary_emb.inv_freq");
}

// Layers that attend to the cache of an earlier one may have been trained with keys of their own.
bool is_of_shared_cache(const ModelSpec& m, std::string_view name) {
  for (int layer = m.layers - m.shared_kv_layers; layer < m.layers; ++layer)
    for (const char* unused : {"attn_k.weight", "attn_v.weight", "attn_k_norm.weight"})
      if (name == fmt::format("blk.{}.{}", layer, unused)) return true;
  return false;
}

std::string_view expert_by_expert(std::span<const NamedTensor> tensors) {
  for (const NamedTensor& t : tensors)
    for (const char* stem : {".ffn_gate.", ".ffn_up.", ".ffn_down."}) {
      const auto at = t.name.find(stem);
      if (at == std::string_view::npos) continue;
      const std::string_view rest = t.name.substr(at + std::strlen(stem));
      if (!rest.empty() && rest[0] >= '0' && rest[0] <= '9') return t.name;
    }
  return {};
}

// Removes trailing dimensions of 1: a vector may be stored as a matrix of one row.
Shape trimmed(Shape shape) {
  while (shape.size() > 1 && shape.back() == 1) shape.pop_back();
  return shape;
}

// True for a vector of parts, one after the other: norms of heads, biases of experts.
bool is_flat(const Shape& shape, const Shape& parts) {
  return trimmed(shape) == Shape{parts[0] * (parts.size() > 1 ? parts[1] : 1)} && parts.size() == 2;
}

// Finds tensors by name, each once. The first error is kept; tensors that are requested after it
// are empty.
class Binder {
 public:
  std::optional<Error> index(std::span<const NamedTensor> tensors) {
    for (const NamedTensor& t : tensors)
      if (!by_name_.emplace(t.name, &t).second)
        return bad_input(fmt::format("the tensor \"{}\" is there twice", t.name));
    return std::nullopt;
  }

  bool has(std::string_view name) const { return by_name_.contains(name); }

  std::vector<float> vector(const std::string& name, std::int64_t width) {
    return vector(name, Shape{width});
  }

  /// Vectors of experts are one after the other.
  std::vector<float> vector(const std::string& name, const Shape& shape) {
    const NamedTensor* t = take(name, shape, true);
    if (!t) return {};
    if (t->format != QuantFormat::kF32) {
      refuse(fmt::format("\"{}\" is in {}, expected F32", name, info(t->format).name),
             "norms and biases are not quantised");
      return {};
    }
    std::vector<float> out(std::size_t(shape[0] * (shape.size() > 1 ? shape[1] : 1)), 0.0f);
    std::memcpy(out.data(), t->data, out.size() * sizeof(float));
    require(name, out, "a finite number", [](float x) { return std::isfinite(x); });
    return out;
  }

  /// Reads RoPE factors, by which frequencies are divided.
  std::vector<float> factors(const std::string& name, std::int64_t width) {
    std::vector<float> out = vector(name, width);
    require(name, out, "more than 0", [](float x) { return x > 0; });
    return out;
  }

  Matrix matrix(const std::string& name, std::int64_t columns, std::int64_t rows) {
    const NamedTensor* t = take(name, {columns, rows});
    return t ? Matrix{t->data, t->format, columns, rows} : Matrix{};
  }

  MatrixStack stack(const std::string& name, std::int64_t columns, std::int64_t rows, int count) {
    const NamedTensor* t = take(name, {columns, rows, count});
    return t ? MatrixStack{{t->data, t->format, columns, rows}, count} : MatrixStack{};
  }

  void bind(const std::string& name, const Shape& shape, std::vector<float>& to) {
    to = vector(name, shape);
  }
  /// A stack of matrices that are used as one has their rows one after the other.
  void bind(const std::string& name, const Shape& shape, Matrix& to) {
    const NamedTensor* t = take(name, shape);
    if (t) to = {t->data, t->format, shape[0], shape[1] * (shape.size() > 2 ? shape[2] : 1)};
  }
  void bind(const std::string& name, const Shape& shape, MatrixStack& to) {
    to = stack(name, shape[0], shape[1], int(shape[2]));
  }
  /// Two stacks of one tensor: each expert's rows of the one are before those of the other.
  void bind_both(const std::string& name, const Shape& shape, MatrixStack& a, MatrixStack& b) {
    MatrixStack both = stack(name, shape[0], 2 * shape[1], int(shape[2]));
    if (!both) return;
    both.stride = both.first.bytes();
    both.first.rows = shape[1];
    a = b = both;
    b.first.data += both.first.bytes();
  }

  /// Fails if a tensor was not used, because it could change what the model computes.
  void finish(const ModelSpec& m) {
    for (const auto& [name, tensor] : by_name_)
      if (!taken_.contains(name) && !is_ignored(m, name) && !is_of_shared_cache(m, name))
        refuse(fmt::format("\"{}\" has no place in this architecture", name),
               "a model with such a tensor is not executed");
  }

  const std::optional<Error>& error() const { return error_; }

 private:
  const NamedTensor* take(const std::string& name, const Shape& shape, bool flat = false) {
    if (error_) return nullptr;
    const auto at = by_name_.find(name);
    if (at == by_name_.end()) {
      refuse(fmt::format("there is no \"{}\"", name));
      return nullptr;
    }
    const NamedTensor& t = *at->second;
    taken_.insert(t.name);
    if (trimmed(t.shape) != trimmed(shape) && !(flat && is_flat(t.shape, shape))) {
      refuse(fmt::format("\"{}\" has the shape {}, expected {}", name, fmt::join(t.shape, " x "),
                         fmt::join(shape, " x ")));
    } else if (shape[0] % info(t.format).block_elements != 0) {
      refuse(fmt::format("\"{}\" has rows of {} weights, no multiple of a block of {}", name,
                         shape[0], info(t.format).name));
    } else if (!t.data) {
      refuse(fmt::format("\"{}\" has no data", name));
    }
    return error_ ? nullptr : &t;
  }
  template <class Sound>
  void require(const std::string& name, const std::vector<float>& values, std::string_view expected,
               Sound sound) {
    const auto odd = std::ranges::find_if_not(values, sound);
    if (odd != values.end())
      refuse(fmt::format("element {} of \"{}\" is {}, expected {}", odd - values.begin(), name,
                         *odd, expected),
             "the file is damaged or was converted badly: fetch or convert it again");
  }
  void refuse(std::string message, std::string hint = {}) {
    if (!error_) error_ = bad_input(std::move(message), std::move(hint));
  }

  std::map<std::string_view, const NamedTensor*> by_name_;
  std::set<std::string_view> taken_;
  std::optional<Error> error_;
};

// That of weights that only latent attention has, or that it has in another shape; empty: others.
Shape latent_shape_of(const ModelSpec& m, const LatentAttention& a, LayerWeight weight) {
  const std::int64_t q = m.heads * (a.qk_nope_dim + a.qk_rope_dim);
  switch (weight) {
    case LayerWeight::kQ: return {m.hidden, q};
    case LayerWeight::kQA: return {m.hidden, a.q_lora_rank};
    case LayerWeight::kQANorm: return {a.q_lora_rank};
    case LayerWeight::kQB: return {a.q_lora_rank, q};
    case LayerWeight::kKvA: return {m.hidden, a.kv_lora_rank + a.qk_rope_dim};
    case LayerWeight::kKvANorm: return {a.kv_lora_rank};
    case LayerWeight::kKB: return {a.qk_nope_dim, a.kv_lora_rank, m.heads};
    case LayerWeight::kVB: return {a.kv_lora_rank, a.v_dim, m.heads};
    case LayerWeight::kOutput: return {m.heads * a.v_dim, m.hidden};
    default: return {};
  }
}

// The shape of a recurrent mixer's weight. One that only convolves has values as wide as the
// residual stream, and three of them.
Shape mixer_shape(const ModelSpec& m, const Layer& layer, LayerWeight weight) {
  const MixerWidths& w = layer.mixer;
  const Mixer mixer = find_architecture(m.architecture)->mixer;
  const bool only_convolves = mixer == Mixer::kShortConvolution, is_mamba = mixer == Mixer::kMamba;
  const std::int64_t heads = w.time_step_rank, inner = only_convolves ? m.hidden : w.inner_size;
  // The gate and time steps, or the gate alone.
  const std::int64_t beside = is_mamba ? inner + heads : layer.has_grouped_gates() ? inner : 0;
  using enum LayerWeight;
  switch (weight) {
    case kMixerIn: return {m.hidden, only_convolves ? 3 * m.hidden : w.convolved() + beside};
    case kMixerGate: return {m.hidden, inner};
    case kMixerAlpha: return {m.hidden, heads};
    case kMixerBeta: return {m.hidden, layer.has_grouped_heads() ? 2 * heads : heads};
    case kMixerTaps: return {w.conv_kernel, only_convolves ? m.hidden : w.convolved()};
    case kMixerTapsBias: return {w.convolved()};
    case kMixerTimeBias: return {heads};
    case kMixerDecay:
    case kMixerSkip: return is_mamba ? Shape{1, heads} : Shape{heads};
    case kMixerNorm:
      return is_mamba ? Shape{inner / w.group_count, w.group_count} : Shape{w.state_size};
    case kMixerOut: return {inner, m.hidden};
    default: RIGCAST_ASSERT(false);
  }
}

// The shape of a layer's weight, row length first.
Shape shape_of(const ModelSpec& m, const Layer& layer, LayerWeight weight) {
  const AttentionShape& attention = layer.attention;
  const std::int64_t head = attention.head_dim;
  const bool each_head = m.qk_norm_wide && find_architecture(m.architecture)->layer_norm;
  using enum LayerWeight;
  const std::int64_t q = attention.q_width(), kv = attention.kv_width();
  if (m.mla)
    if (const Shape shape = latent_shape_of(m, *m.mla, weight); !shape.empty()) return shape;
  const MixtureOfExperts moe = m.moe.value_or(MixtureOfExperts());
  switch (weight) {
    case kAttentionNorm:
    case kAttentionNormBias:
    case kInputNorm:
    case kDownBias:
    case kAttentionPostNorm:
    case kFfnNorm:
    case kFfnNormBias:
    case kFfnPostNorm:
    case kRouterNorm:
    case kExpertNorm:
    case kExpertPostNorm:
    case kSharedPostNorm:
    case kOutputBias: return {m.hidden};
    case kQ: return {m.hidden, m.attention_gate ? 2 * q : q};
    case kK:
    case kV: return {m.hidden, kv};
    case kOutput: return {q, m.hidden};
    case kQBias: return {q};
    case kKBias:
    case kVBias: return {kv};
    case kQNorm:
      if (each_head) return {head, attention.heads};
      return {m.qk_norm_wide ? q : head};
    case kKNorm:
      if (each_head) return {head, attention.kv_heads};
      return {m.qk_norm_wide ? kv : head};
    case kGate:
    case kUp: return {m.hidden, m.ffn};
    case kDown: return {m.ffn, m.hidden};
    case kQA:
    case kQANorm:
    case kQB:
    case kKvA:
    case kKvANorm:
    case kKB:
    case kVB: break;  // of latent attention alone
    case kUpBias: return {m.ffn};
    case kInputGate: return {m.hidden, m.layer_embedding};
    case kInputProjection: return {m.layer_embedding, m.hidden};
    case kLayerScale: return {1};
    case kSinks: return {attention.heads};
    case kRouter: return {m.hidden, moe.experts};
    case kRouterBias: return {moe.experts};
    case kSelectionBias:
    case kExpertScale: return {moe.experts};
    case kSharedRouter: return {m.hidden};
    case kSharedGate:
    case kSharedUp: return {m.hidden, moe.shared_ffn};
    case kSharedDown: return {moe.shared_ffn, m.hidden};
    case kExpertGate:
    case kExpertUp: return {m.hidden, moe.expert_ffn, moe.experts};
    case kExpertDown: return {moe.expert_ffn, m.hidden, moe.experts};
    case kExpertGateBias:
    case kExpertUpBias: return {moe.expert_ffn, moe.experts};
    case kExpertDownBias: return {m.hidden, moe.experts};
    default: return mixer_shape(m, layer, weight);
  }
  RIGCAST_ASSERT(false);
}

// Weights that files of the model hold as parts of one tensor: the rows of one after those of the
// other.
struct FusedWeights {
  std::string_view name;
  std::vector<LayerWeight> parts;
};

std::vector<FusedWeights> fused_weights(const ModelSpec& m) {
  using enum LayerWeight;
  std::vector<FusedWeights> out;
  if (m.fused_qkv) out.push_back({"attn_qkv.weight", {kQ, kK, kV}});
  if (m.fused_qkv) out.push_back({"attn_qkv.bias", {kQBias, kKBias, kVBias}});
  if (m.fused_gate_up) out.push_back({"ffn_up.weight", {kGate, kUp}});
  return out;
}

// Binds the parts of a fused tensor: views of a matrix's rows, copies of a vector's elements.
void bind_fused(const ModelSpec& m, const FusedWeights& fused, const std::string& name,
                Layer& layer, Binder& binder) {
  Shape whole;
  for (const LayerWeight part : fused.parts) {
    const Shape shape = shape_of(m, layer, part);
    if (whole.empty())
      whole = shape;
    else
      whole.back() += shape.back();
  }
  Matrix matrix;
  std::vector<float> vector;
  whole.size() > 1 ? binder.bind(name, whole, matrix) : binder.bind(name, whole, vector);
  std::int64_t first = 0;
  const auto take = [&](LayerWeight weight, auto& to) {
    const std::int64_t count = shape_of(m, layer, weight).back();
    if constexpr (std::is_same_v<decltype(to), Matrix&>) {
      if (matrix) to = {matrix.row(first), matrix.format, matrix.columns, count};
    } else if constexpr (std::is_same_v<decltype(to), std::vector<float>&>) {
      if (!vector.empty()) to.assign(vector.begin() + first, vector.begin() + first + count);
    }
    first += count;
  };
  // Parts are in the order in which weights are visited.
  for_each_weight(
      [&](LayerWeight weight, auto& to) {
        if (std::ranges::find(fused.parts, weight) != fused.parts.end()) take(weight, to);
      },
      layer);
}

// Where a file has the gates of heads beside what is convolved, in one matrix of the usual name:
// the products of two matrices become parts of one.
void take_grouped_gates(std::vector<LayerOp>& ops) {
  using enum OpKind;
  const auto gates = std::ranges::find_if(ops, [](const LayerOp& op) {
    return op == LayerOp{kLinear, op.in, Activation::kGates, {LayerWeight::kMixerGate}};
  });
  RIGCAST_ASSERT(gates != ops.end());
  *gates = {kTakeGroupGates, Activation::kMixed, Activation::kGates};
  ops.insert(gates + 1, {kTakeGroupVectors, Activation::kMixed, Activation::kMixed});
}

// Where a file has an expert's gate and up in one matrix.
void bind_gate_and_up(const ModelSpec& m, int index, Layer& layer, std::vector<LayerWeight>& bound,
                      Binder& binder) {
  using enum LayerWeight;
  const std::string name = fmt::format("blk.{}.ffn_gate_up_exps.weight", index);
  if (!uses(layer.ops, kExpertGate) || !binder.has(name)) return;
  binder.bind_both(name, shape_of(m, layer, kExpertGate), layer.expert_gate, layer.expert_up);
  bound.insert(bound.end(), {kExpertGate, kExpertUp});
}

// The name of a weight in the files of its layer.
std::string_view name_in_file(const Architecture& architecture, const Layer& layer,
                              LayerWeight weight) {
  if (weight == LayerWeight::kMixerIn && layer.has_grouped_gates()) return name_of(weight);
  return weight_name(architecture, weight);
}

// Binds the weights that the layer's operations use.
Layer bind_layer(const Model& model, int index, Binder& binder) {
  const ModelSpec& m = model.spec;
  Layer layer;
  layer.attention = attention_shape(m, index);
  layer.latent = latent_shape(m);
  layer.rule = attention_rule(m, model.hyper, index);
  layer.ops = layer_ops(m, index);
  if (std::size_t(index) < model.hyper.xielu.size())
    layer.xielu = model.hyper.xielu[std::size_t(index)];
  if (m.has_recurrent_mixer(index)) layer.mixer = mixer_widths(m).value();
  const Architecture& architecture = *find_architecture(m.architecture);
  if (m.has_recurrent_mixer(index) && architecture.grouped_heads &&
      binder.has(fmt::format("blk.{}.{}", index, name_of(LayerWeight::kMixerIn))))
    take_grouped_gates(layer.ops);
  std::vector<LayerWeight> bound;
  for (const FusedWeights& fused : fused_weights(m)) {
    if (!uses(layer.ops, fused.parts.front())) continue;
    bind_fused(m, fused, fmt::format("blk.{}.{}", index, fused.name), layer, binder);
    bound.insert(bound.end(), fused.parts.begin(), fused.parts.end());
  }
  bind_gate_and_up(m, index, layer, bound, binder);
  for_each_weight(
      [&](LayerWeight weight, auto& to) {
        if (uses(layer.ops, weight) && std::ranges::find(bound, weight) == bound.end())
          binder.bind(fmt::format("blk.{}.{}", index, name_in_file(architecture, layer, weight)),
                      shape_of(m, layer, weight), to);
      },
      layer);
  const float root = std::sqrt(float(m.hidden));
  for (float& x : layer.router_norm) x /= root;
  return layer;
}

// Both vectors of longrope, of which choose_rope_factors() takes one.
void bind_rope_factors(Binder& binder, Model& model) {
  const std::int64_t pairs = model.hyper.rope_dims / 2;
  if (model.spec.rope_freqs) model.rope_factors = binder.factors("rope_freqs.weight", pairs);
  if (model.spec.rope_factors == 0) return;
  model.rope_factors = binder.factors("rope_factors_short.weight", pairs);
  model.long_rope_factors = binder.factors("rope_factors_long.weight", pairs);
}

void bind_all(Binder& binder, Model& model) {
  const ModelSpec& m = model.spec;
  model.embedding = binder.matrix("token_embd.weight", m.hidden, m.vocabulary);
  for (int i = 0; i < m.layers && !binder.error(); ++i)
    model.layers.push_back(bind_layer(model, i, binder));
  model.final_norm =
      binder.vector(std::string(find_architecture(m.architecture)->final_norm), m.hidden);
  if (m.norm_bias) model.final_norm_bias = binder.vector("output_norm.bias", m.hidden);
  model.head =
      m.tied_embeddings ? model.embedding : binder.matrix("output.weight", m.hidden, m.vocabulary);
  if (binder.has("output.bias")) model.head_bias = binder.vector("output.bias", m.vocabulary);
  if (m.layer_embedding > 0) {
    const std::int64_t all = m.layers * m.layer_embedding;
    model.input_embedding = binder.matrix("per_layer_token_embd.weight", all, m.vocabulary);
    model.input_projection = binder.matrix("per_layer_model_proj.weight", m.hidden, all);
    model.input_norm = binder.vector("per_layer_proj_norm.weight", m.layer_embedding);
  }
  bind_rope_factors(binder, model);
  binder.finish(m);
}

}  // namespace

std::optional<Error> check_executable(const ModelSpec& m) {
  const Architecture* const architecture = find_architecture(m.architecture);
  if (!architecture) {
    std::vector<std::string_view> names;
    for (const Architecture& a : architectures()) names.push_back(a.name);
    return bad_input(
        fmt::format("models of the architecture \"{}\" are not executed", m.architecture),
        fmt::format("{} are; forecasts know more", fmt::join(names, ", ")));
  }
  if (const std::string_view trait = unexecuted_trait(*architecture, m); !trait.empty())
    return bad_input(fmt::format("{} has {}, which is not executed", m.name, trait));
  const bool sound = m.layers > 0 && m.hidden > 0 && m.heads > 0 && m.kv_heads > 0 &&
                     m.heads % m.kv_heads == 0 && m.head_dim > 0 && m.vocabulary > 0;
  if (!sound) return bad_input(fmt::format("{} has a width of 0", m.name));
  if (m.mla && !(m.mla->kv_lora_rank > 0 && m.mla->qk_nope_dim > 0 && m.mla->qk_rope_dim > 0 &&
                 m.mla->v_dim > 0 && m.mla->q_lora_rank >= 0))
    return bad_input(fmt::format("{} has latent attention of a width of 0", m.name));
  for (int layer = m.layers - m.shared_kv_layers; layer < m.layers; ++layer)
    if (const int from = kv_layer_of(m, layer);
        !m.has_kv(from) || m.sees_all_tokens(from) != m.sees_all_tokens(layer))
      return bad_input(fmt::format("{}: layer {} finds no cache of an earlier layer of its kind",
                                   m.name, layer));
  if (m.recurrent && !mixer_widths(m))
    return bad_input(
        fmt::format("{} has recurrent layers of widths that are not executed", m.name));
  if (m.rope_freqs && m.rope_factors > 0)
    return bad_input(fmt::format("{} has rope factors in one vector and in two", m.name));
  if (m.moe && (m.moe->experts_used < 1 || m.moe->experts_used > m.moe->experts))
    return bad_input(
        fmt::format("{} uses {} of {} experts", m.name, m.moe->experts_used, m.moe->experts));
  return std::nullopt;
}

Error uncomputed_format(std::string_view tensor, std::string_view format) {
  return bad_input(
      fmt::format("tensor \"{}\" is in {}, for which the engine has no code", tensor, format),
      "forecasts know it; to run, choose another quant mix, such as IQ4_XS");
}

std::optional<Error> check_formats(const TensorTable& tensors) {
  const Tensor* const t = tensors.uncomputed();
  if (!t) return std::nullopt;
  return uncomputed_format(t->name, info(t->format).name);
}

Result<Model> bind_model(ModelSpec spec, const Hyperparameters& hyper,
                         std::span<const NamedTensor> tensors,
                         std::shared_ptr<const void> storage) {
  if (auto error = check_executable(spec)) return *error;
  if (auto error = check_hyper(spec, hyper)) return *error;
  if (const std::string_view old = expert_by_expert(tensors); !old.empty())
    return bad_input(fmt::format("\"{}\" is one matrix of one expert", old),
                     "files from before 2024-04 have experts one by one: fetch a newer file");
  if (spec.mla && std::ranges::any_of(tensors, [](const NamedTensor& t) {
        return t.name.ends_with(".attn_kv_b.weight");
      }))
    return bad_input(
        fmt::format("{} has \"attn_kv_b.weight\", keys and values in one matrix", spec.name),
        "files from before 2025-04 have them so: fetch a newer file");
  Binder binder;
  if (auto error = binder.index(tensors)) return *error;
  Model model;
  model.spec = std::move(spec);
  model.hyper = hyper;
  model.storage = std::move(storage);
  bind_all(binder, model);
  if (binder.error()) return *binder.error();
  return model;
}

}  // namespace rigcast::engine
