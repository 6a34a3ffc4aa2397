#pragma once
// Whole models of a few megabytes, made of synthetic weights and bound by hand: what kernels,
// loaders and writers are tested on.

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/model/tensor_table.hpp"
#include "engine/architectures/architecture.hpp"
#include "engine/architectures/bind_model.hpp"
#include "engine/kernels/ref/dequantize.hpp"
#include "engine/kernels/ref/quantize.hpp"
#include "engine/model/file_tensors.hpp"
#include "engine/model/model.hpp"
#include "engine/model/recurrent_mixers.hpp"
#include "engine/synth/synth.hpp"

namespace rigcast::engine::fixtures {

struct TinyTraits {
  std::string architecture = "llama";   // any that is executed
  std::string mix = "F32";              // as QuantMix::from_name reads it
  std::optional<QuantFormat> format{};  // of all matrices but the router, in place of the mix
  std::int64_t hidden = 256;
  int heads = 4;
  int kv_heads = 2;
  std::int64_t head_dim = 64;
  std::int64_t ffn = 512;  // of a dense layer, or of one expert
  int layers = 8;
  std::int64_t vocabulary = 500;
  std::int64_t context = 512;
  bool tied = false;
  bool qkv_bias = false;  // always of those that have them, such as qwen2; likewise below
  bool output_bias = false;
  bool qk_norm = false;
  int experts = 0;  // 0: dense
  int experts_used = 2;
  std::int64_t shared_ffn = 0;     // of a mixture's shared experts
  int dense_layers = 0;            // before those with experts, twice as wide as one expert
  int every = 1;                   // every n-th layer has experts
  int nextn_layers = 0;            // that draft tokens, behind the others
  std::int64_t window = 0;         // tokens; 0: all layers see all tokens
  int window_full_every = 0;       // every n-th layer sees all tokens all the same
  std::int64_t full_head_dim = 0;  // in those layers; 0: head_dim
  int full_kv_heads = 0;           // likewise; 0: kv_heads
  // Latent attention: a row of 64 + 32, of which heads of 32 + 32 make keys, and values of 64.
  bool latent = false;
  std::int64_t q_lora_rank = 64;  // 0: queries are not compressed
  bool selection_bias = false;    // of the choice of experts; always of those that have one
  bool full_key_is_value = false;
  int shared_kv_layers = 0;
  std::int64_t layer_embedding = 0;
  bool rope_freqs = false;
  std::int64_t rope_factors = 0;  // pairs that longrope turns
  std::uint64_t seed = 1;
};

struct TinyTensor {
  Tensor tensor;  // core's: name, role, shape, format
  std::vector<std::byte> bytes;
};

/// `model` points into `tensors`: writing to a matrix's bytes changes the model. Vectors of the
/// model are copies. Copies of a TinyModel share the tensors.
struct TinyModel {
  std::shared_ptr<std::vector<TinyTensor>> tensors;
  Model model;

  TinyTensor* find(std::string_view name) const {
    for (TinyTensor& t : *tensors)
      if (t.tensor.name == name) return &t;
    return nullptr;
  }

  /// For bind_model or a file.
  std::vector<NamedTensor> named() const {
    std::vector<NamedTensor> out;
    for (const TinyTensor& t : *tensors) {
      NamedTensor n{t.tensor.name, t.tensor.format, {}, t.bytes.data()};
      for (int i = 0; i < t.tensor.dimensions; ++i)
        n.shape.push_back(std::int64_t(t.tensor.shape[std::size_t(i)]));
      out.push_back(n);
    }
    return out;
  }
};

namespace tiny_detail {

inline bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

/// Heads of 128 values, as all published models of a delta net have; those of Mamba are twice as
/// wide as the embedding, together; two share a key. Layers that attend are every
/// fourth, or every second; or all, or those of a pattern.
inline void give_recurrent_layers(ModelSpec& m, bool experts) {
  const bool is_delta_net = is_one_of(m.architecture, {"qwen35", "qwen35moe", "qwen3next"});
  const bool single = m.architecture.starts_with("nemotron_h");
  const bool beside = m.architecture == "falcon-h1";
  const bool is_mamba = m.architecture == "granitehybrid" || single || beside;
  if (!is_delta_net && !is_mamba && !m.architecture.starts_with("lfm2")) return;
  m.attention_gate = is_delta_net;
  const MixerWidths widths = is_delta_net ? MixerWidths{4, 4 * 128, 128, 4, 2}
                             : is_mamba   ? MixerWidths{4, 2 * m.hidden, 128, 8, 2}
                                          : MixerWidths{3};
  m.recurrent = recurrent_layers(m, widths);
  if (is_delta_net) m.recurrent->full_attention_every = 4;
  m.recurrent->parallel = beside;
  for (int i = 0; single && i < m.layers; ++i) m.pattern += experts ? "ME*E"[i % 4] : "M-*-"[i % 4];
  if (is_delta_net || beside || single) return;
  for (int i = 1; i < m.layers; i += 2) m.recurrent->attention_layers.push_back(i);
}

/// What all models of an architecture have.
inline void give_own_traits(ModelSpec& m, bool experts) {
  const std::string_view a = m.architecture;
  m.qkv_bias |= is_one_of(
      a, {"qwen2", "qwen2moe", "qwen2vl", "seed_oss", "glm4", "glm4moe", "gpt-oss", "phi2"});
  m.qkv_bias |= a == "phimoe";
  m.output_bias |= is_one_of(a, {"gpt-oss", "phi2", "phimoe"});
  m.ffn_bias = a == "phi2";
  m.norm_bias = is_one_of(a, {"phi2", "falcon", "phimoe"});
  m.gated_ffn = !is_one_of(a, {"phi2", "falcon", "apertus", "nemotron_h", "nemotron_h_moe"});
  m.layer_scale = a == "gemma4";
  m.attention_sinks = a == "gpt-oss";
  m.qk_norm_wide =
      is_one_of(a, {"olmo2", "olmoe", "minimax-m2"}) || (a == "command-r" && m.qk_norm);
  m.qk_norm |= m.qk_norm_wide || a.starts_with("qwen3") ||
               is_one_of(a, {"exaone4", "exaone-moe", "gemma3", "gemma4", "hunyuan-moe", "hy_v3",
                             "bailingmoe2", "dots1", "apertus", "lfm2", "lfm2moe"});
  m.fused_qkv = is_one_of(a, {"phi2", "phi3", "falcon", "bailingmoe2"});
  m.fused_gate_up = is_one_of(a, {"phi3", "glm4"});
  if (is_one_of(a, {"gemma2", "gemma3", "gemma4", "glm4"})) m.norms_per_layer = 4;
  if (a == "gemma4" && experts) m.norms_per_layer = 8;
  if (is_one_of(a, {"command-r", "cohere2", "phi2", "falcon", "nemotron_h", "nemotron_h_moe"}))
    m.norms_per_layer = 1;
}

/// What all mixtures of an architecture have.
inline void give_own_traits(std::string_view a, MixtureOfExperts& moe) {
  moe.expert_bias = a == "gpt-oss";
  moe.router_bias = moe.expert_bias ||
                    is_one_of(a, {"glm4moe", "minimax-m2", "ernie4_5-moe", "bailingmoe2", "dots1",
                                  "exaone-moe", "hy_v3", "lfm2moe", "gemma4", "nemotron_h_moe"});
  moe.shared_gate = moe.shared_ffn > 0 && is_one_of(a, {"qwen2moe", "qwen35moe", "qwen3next"});
}

}  // namespace tiny_detail

inline ModelSpec tiny_spec(const TinyTraits& t) {
  ModelSpec m;
  m.id = m.name = "tiny";
  m.source = "fixture";
  m.architecture = t.architecture;
  m.layers = t.layers;
  m.hidden = t.hidden;
  m.heads = t.heads;
  m.kv_heads = t.kv_heads;
  m.head_dim = t.head_dim;
  m.ffn = t.experts == 0 ? t.ffn : t.dense_layers > 0 || t.every > 1 ? 2 * t.ffn : 0;
  m.nextn_layers = t.nextn_layers;
  m.vocabulary = t.vocabulary;
  m.context = t.context;
  m.tied_embeddings = t.tied;
  m.qkv_bias = t.qkv_bias;
  m.output_bias = t.output_bias;
  m.qk_norm = t.qk_norm;
  tiny_detail::give_own_traits(m, t.experts > 0);
  tiny_detail::give_recurrent_layers(m, t.experts > 0);
  m.rope_freqs = t.rope_freqs;
  m.rope_factors = t.rope_factors;
  if (t.window > 0)
    m.window = SlidingWindow{.tokens = t.window,
                             .full_every = t.window_full_every,
                             .full_head_dim = t.full_head_dim,
                             .full_kv_heads = t.full_kv_heads,
                             .full_key_is_value = t.full_key_is_value};
  m.shared_kv_layers = t.shared_kv_layers;
  m.layer_embedding = t.layer_embedding;
  if (t.latent) {
    m.mla = LatentAttention{.q_lora_rank = t.q_lora_rank,
                            .kv_lora_rank = 64,
                            .qk_nope_dim = 32,
                            .qk_rope_dim = 32,
                            .v_dim = 64};
    m.kv_heads = m.heads;
    m.head_dim = 64;
  }
  if (t.experts == 0) return m;
  m.moe.emplace();
  m.moe->experts = t.experts;
  m.moe->experts_used = t.experts_used;
  m.moe->expert_ffn = t.ffn;
  m.moe->shared_ffn = t.shared_ffn;
  m.moe->dense_layers = t.dense_layers;
  m.moe->every = t.every;
  tiny_detail::give_own_traits(t.architecture, *m.moe);
  m.moe->router_bias |= t.selection_bias;
  return m;
}

inline bool is_bound_by_hand(std::string_view architecture) {
  return tiny_detail::is_one_of(architecture, {"llama", "qwen2", "qwen3", "qwen3moe"});
}

inline Hyperparameters tiny_hyperparameters(const TinyTraits& t) {
  if (!is_bound_by_hand(t.architecture)) return default_hyperparameters(tiny_spec(t));
  Hyperparameters h;
  h.rope_dims = int(t.head_dim);
  h.rope_pairs = t.architecture == "llama" ? RopePairs::kInterleaved : RopePairs::kNeox;
  return h;
}

namespace tiny_detail {

inline bool takes_format(const Tensor& t) {
  const bool is_taps = t.role == TensorRole::kRecurrent && t.shape[0] < 32;
  return t.dimensions > 1 && t.role != TensorRole::kRouter && t.role != TensorRole::kBias &&
         !is_taps;
}

inline std::shared_ptr<std::vector<TinyTensor>> make_tensors(const ModelSpec& spec,
                                                             const TinyTraits& traits) {
  const auto mix = QuantMix::from_name(traits.mix);
  RIGCAST_ASSERT(mix.ok());
  const auto table = make_tensor_table(spec, *mix);
  RIGCAST_ASSERT(table.ok());
  auto tensors = std::make_shared<std::vector<TinyTensor>>();
  for (Tensor t : file_tensors(spec, *table).tensors) {
    if (traits.format && takes_format(t)) {
      t.format = *traits.format;
      t.bytes = tensor_bytes(t.format, t.shape[0], t.shape[1] * t.shape[2]);
    }
    std::vector<std::byte> bytes(t.bytes);
    synthesize(t, traits.seed, 0, bytes, synth_traits(*table));
    tensors->push_back({std::move(t), std::move(bytes)});
  }
  return tensors;
}

/// Fields of a model by the names of tensors. A name that is not there leaves the field empty.
class Binder {
 public:
  Binder(const TinyModel& tiny, std::string prefix) : tiny_(tiny), prefix_(std::move(prefix)) {}

  Matrix matrix(const std::string& name) const { return stack(name).first; }

  MatrixStack stack(const std::string& name) const {
    const TinyTensor* t = tiny_.find(prefix_ + name);
    if (t == nullptr) return {};
    const auto& shape = t->tensor.shape;
    return {{t->bytes.data(), t->tensor.format, std::int64_t(shape[0]), std::int64_t(shape[1])},
            int(shape[2])};
  }

  std::vector<float> vector(const std::string& name) const {
    const TinyTensor* t = tiny_.find(prefix_ + name);
    if (t == nullptr) return {};
    std::vector<float> out(t->tensor.elements());
    ref::dequantize(t->tensor.format, t->bytes.data(), out);
    return out;
  }

 private:
  const TinyModel& tiny_;
  std::string prefix_;
};

inline void fill(const Binder& b, const std::string& name, Matrix& to) { to = b.matrix(name); }
inline void fill(const Binder& b, const std::string& name, MatrixStack& to) { to = b.stack(name); }
inline void fill(const Binder& b, const std::string& name, std::vector<float>& to) {
  to = b.vector(name);
}

inline Layer bind_layer(const TinyModel& tiny, int index) {
  const Binder binder(tiny, "blk." + std::to_string(index) + ".");
  Layer l;
  l.attention = attention_shape(tiny.model.spec, index);
  l.ops = layer_ops(tiny.model.spec, index);
  for_each_weight([&](LayerWeight w, auto& to) { fill(binder, std::string(name_of(w)), to); }, l);
  return l;
}

}  // namespace tiny_detail

/// Binds again, after vectors among the tensors were written to.
inline void rebind(TinyModel& tiny) {
  Model& m = tiny.model;
  if (!is_bound_by_hand(m.spec.architecture)) {
    auto bound = bind_model(m.spec, m.hyper, tiny.named(), tiny.tensors);
    RIGCAST_ASSERT(bound.ok());
    m = *std::move(bound);
    choose_rope_factors(m, 0);
    return;
  }
  const tiny_detail::Binder whole(tiny, "");
  m.embedding = whole.matrix("token_embd.weight");
  m.head = m.spec.tied_embeddings ? m.embedding : whole.matrix("output.weight");
  m.final_norm = whole.vector("output_norm.weight");
  m.rope_factors = whole.vector("rope_freqs.weight");
  m.layers.clear();
  for (int i = 0; i < m.spec.layers; ++i) m.layers.push_back(tiny_detail::bind_layer(tiny, i));
  m.storage = tiny.tensors;
}

inline TinyModel make_tiny_model(const TinyTraits& traits) {
  TinyModel tiny;
  tiny.model.spec = tiny_spec(traits);
  tiny.model.hyper = tiny_hyperparameters(traits);
  tiny.tensors = tiny_detail::make_tensors(tiny.model.spec, traits);
  rebind(tiny);
  return tiny;
}

/// Replaces weights of a tensor, in its own format. values.size() is its element count.
inline void set_weights(TinyModel& tiny, std::string_view name, std::span<const float> values) {
  TinyTensor* t = tiny.find(name);
  RIGCAST_ASSERT(t != nullptr && values.size() == t->tensor.elements());
  ref::quantize(t->tensor.format, values, t->bytes.data());
  rebind(tiny);
}

}  // namespace rigcast::engine::fixtures
