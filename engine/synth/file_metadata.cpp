#include "engine/synth/file_metadata.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/architectures/architecture.hpp"
#include "engine/architectures/bind_model.hpp"
#include "engine/model/recurrent_mixers.hpp"

namespace rigcast::engine {
namespace {

// Writes keys below the architecture's name.
class Keys {
 public:
  Keys(GgufHeader& header, const ModelSpec& m) : model(m), header_(header) {}

  template <class T>
  void set(std::string_view key, const T& value) {
    header_.set(fmt::format("{}.{}", model.architecture, key), value);
  }
  /// A key without the architecture's name.
  template <class T>
  void set_global(std::string_view key, const T& value) {
    header_.set(key, value);
  }
  void count(std::string_view key, std::int64_t value) { set(key, std::uint32_t(value)); }

  const ModelSpec& model;

 private:
  GgufHeader& header_;
};

// Gating functions of routers.
enum Gating : std::uint32_t { kSoftmax = 1, kSigmoid = 2 };

void gating(Keys& keys, Gating function, bool normalised, float scale = 1) {
  keys.set("expert_gating_func", std::uint32_t(function));
  keys.set("expert_weights_norm", normalised);
  keys.set("expert_weights_scale", scale);
}

void latent(Keys& keys) {
  const LatentAttention& a = *keys.model.mla;
  if (a.q_lora_rank > 0) keys.count("attention.q_lora_rank", a.q_lora_rank);
  keys.count("attention.kv_lora_rank", a.kv_lora_rank);
  keys.count("attention.key_length_mla", a.qk_nope_dim + a.qk_rope_dim);
  keys.count("attention.value_length_mla", a.v_dim);
}

// RoPE of positions in time, height, width and one more, each with its share of a head's pairs.
// They are as equal as can be: Qwen3-VL gives every third pair to each of the first three.
void sections(Keys& keys) {
  const auto pairs = std::int32_t(default_hyperparameters(keys.model).rope_dims / 2);
  const std::int32_t height = (pairs + 1) / 3, width = pairs / 3;
  keys.set("rope.dimension_sections",
           std::vector<std::int32_t>{pairs - height - width, height, width, 0});
}

// The activation of Apertus has four parameters in every layer.
void activation(Keys& keys) {
  for (const auto& [name, value] :
       {std::pair{"alpha_n", 0.8f}, {"alpha_p", 0.8f}, {"beta", 0.5f}, {"eps", -1e-6f}})
    keys.set_global(fmt::format("xielu.{}", name),
                    std::vector<float>(std::size_t(keys.model.layers), value));
}

void convolution(Keys& keys) {
  keys.count("shortconv.l_cache", mixer_widths(keys.model)->conv_kernel);
}

void per_layer(Keys& keys) {
  const ModelSpec& m = keys.model;
  keys.count("embedding_length_per_layer_input", m.layer_embedding);
  keys.count("attention.shared_kv_layers", m.shared_kv_layers);
}

// Heads of layers with a window; llama.cpp wants the windows layer by layer.
void full_layers(Keys& keys) {
  const ModelSpec& m = keys.model;
  std::vector<std::int32_t> windowed;
  for (int i = 0; i < m.layers; ++i) windowed.push_back(m.sees_all_tokens(i) ? 0 : 1);
  keys.set("attention.sliding_window_pattern", windowed);
  keys.count("attention.key_length_swa", m.head_dim);
  keys.count("attention.value_length_swa", m.head_dim);
  keys.count("rope.dimension_count_swa", m.head_dim);
  per_layer(keys);
}

void state_space(Keys& keys) {
  const MixerWidths w = *mixer_widths(keys.model);
  keys.count("ssm.conv_kernel", w.conv_kernel);
  keys.count("ssm.inner_size", w.inner_size);
  keys.count("ssm.state_size", w.state_size);
  keys.count("ssm.time_step_rank", w.time_step_rank);
  keys.count("ssm.group_count", w.group_count);
}

// llama.cpp wants the number of both kinds of norms.
void single_blocks(Keys& keys) {
  state_space(keys);
  keys.set("attention.layer_norm_epsilon", default_hyperparameters(keys.model).norm_eps);
}

void delta_net(Keys& keys) {
  state_space(keys);
  sections(keys);
  keys.count("full_attention_interval", keys.model.recurrent->full_attention_every);
}

void granite_hybrid(Keys& keys) {
  state_space(keys);
  keys.set("rope.scaling.finetuned", false);
}

// An architecture whose files are written, and what it has in addition to the common keys.
struct FileArchitecture {
  std::string_view name;
  void (*more)(Keys& keys) = nullptr;
};

constexpr FileArchitecture kArchitectures[] = {
    {"apertus", activation},
    {"bailingmoe2"},
    {"cohere2"},
    {"command-r"},
    {"deepseek2", latent},
    {"dots1"},
    {"ernie4_5"},
    {"ernie4_5-moe"},
    {"exaone-moe"},
    {"exaone4"},
    {"falcon"},
    {"falcon-h1", state_space},
    {"gemma"},
    {"gemma2"},
    {"gemma3"},
    {"gemma3n", per_layer},
    {"gemma4", full_layers},
    {"glm4"},
    {"glm4moe"},
    {"gpt-oss"},
    {"granite"},
    {"granitehybrid", granite_hybrid},
    {"hunyuan-moe"},
    {"hy_v3"},
    {"lfm2", convolution},
    {"lfm2moe", convolution},
    {"llama"},
    {"llama4"},
    {"minimax-m2"},
    {"mistral3"},
    {"mistral4", latent},
    {"nemotron_h", single_blocks},
    {"nemotron_h_moe", single_blocks},
    {"olmo2"},
    {"olmoe"},
    {"phi2"},
    {"phi3"},
    {"phimoe"},
    {"qwen2"},
    {"qwen2moe"},
    {"qwen2vl", sections},
    {"qwen3"},
    {"qwen35", delta_net},
    {"qwen35moe", delta_net},
    {"qwen3moe"},
    {"qwen3next", state_space},
    {"qwen3vl", sections},
    {"qwen3vlmoe", sections},
    {"seed_oss"},
    {"smollm3"},
};

const FileArchitecture* find(std::string_view name) {
  const auto* const at = std::ranges::find(kArchitectures, name, &FileArchitecture::name);
  return at == std::end(kArchitectures) ? nullptr : at;
}

// The inner width of dense layers; where layers are one block alone, of every layer.
void set_ffn(Keys& keys) {
  const ModelSpec& m = keys.model;
  const Architecture* const known = find_architecture(m.architecture);
  const bool beside = m.moe && known && known->experts_beside;
  const std::int64_t ffn = beside                ? m.moe->shared_ffn
                           : m.ffn > 0 || !m.moe ? m.ffn
                                                 : m.moe->expert_ffn;
  if (m.pattern.empty()) return keys.count("feed_forward_length", ffn);
  std::vector<std::int32_t> widths;
  for (int i = 0; i < m.layers; ++i) widths.push_back(m.has_ffn(i) ? std::int32_t(ffn) : 0);
  keys.set("feed_forward_length", widths);
}

void set_sizes(Keys& keys) {
  const ModelSpec& m = keys.model;
  keys.count("vocab_size", m.vocabulary);
  keys.count("block_count", m.layers + m.nextn_layers);
  if (m.nextn_layers > 0) keys.count("nextn_predict_layers", m.nextn_layers);
  keys.count("context_length", m.context);
  keys.count("embedding_length", m.hidden);
  set_ffn(keys);
}

// Cached heads; where llama.cpp recognizes layers by it, of every layer: 0 without attention.
void set_kv_heads(Keys& keys) {
  const ModelSpec& m = keys.model;
  const bool by_formula = m.architecture.starts_with("qwen3");
  const bool differ = m.window && m.window->full_kv_heads > 0;
  if (!differ && (!m.recurrent || m.recurrent->parallel || by_formula))
    return keys.count("attention.head_count_kv", m.mla ? 1 : m.kv_heads);
  std::vector<std::int32_t> heads;
  for (int i = 0; i < m.layers; ++i) heads.push_back(m.has_attention(i) ? m.kv_heads_of(i) : 0);
  keys.set("attention.head_count_kv", heads);
}

void set_attention(Keys& keys) {
  const ModelSpec& m = keys.model;
  const Hyperparameters h = default_hyperparameters(m);
  keys.count("attention.head_count", m.heads);
  set_kv_heads(keys);
  // Cached keys of latent attention are the compressed vector and the part that RoPE turns.
  const bool wider = m.window && m.window->full_head_dim > 0;
  const std::int64_t head = wider ? m.window->full_head_dim : m.head_dim;
  keys.count("attention.key_length", m.mla ? m.mla->kv_lora_rank + m.mla->qk_rope_dim : head);
  keys.count("attention.value_length", m.mla ? m.mla->kv_lora_rank : head);
  const bool executed = find_architecture(m.architecture) != nullptr;
  if (!h.layer_norm) keys.set("attention.layer_norm_rms_epsilon", h.norm_eps);
  if (!executed || h.layer_norm) keys.set("attention.layer_norm_epsilon", h.norm_eps);
  keys.count("rope.dimension_count", m.mla ? m.mla->qk_rope_dim : h.rope_dims);
  keys.set("rope.freq_base", h.rope_base);
  if (m.window) keys.count("attention.sliding_window", m.window->tokens);
}

// What executed architectures read, as default_hyperparameters() has it: numbers of their own,
// where they are not what files without the key mean, and longrope.
void set_scalars(Keys& keys) {
  const Architecture* const architecture = find_architecture(keys.model.architecture);
  if (!architecture) return;
  const Hyperparameters h = default_hyperparameters(keys.model);
  for (const ScalarKey& scalar : architecture->scalars) {
    const float value = h.*scalar.to;
    if (double(value) == scalar.absent.value_or(0)) continue;
    keys.set(scalar.key, scalar.reciprocal ? 1 / value : value);
  }
  if (keys.model.rope_factors == 0) return;
  keys.count("rope.scaling.original_context_length", std::int64_t(h.rope_context));
  keys.set("rope.scaling.attn_factor", h.rope_magnitude);
}

// How experts are weighted, where files of the architecture say it.
void set_routing(Keys& keys, const Architecture& architecture) {
  const ExpertRouting r = default_hyperparameters(keys.model).routing;
  const Gating function = r.sigmoid ? kSigmoid : kSoftmax;
  if (architecture.reads_routing) return gating(keys, function, r.normalised, r.scale);
  if (r.sigmoid) keys.set("expert_gating_func", std::uint32_t(function));
}

void set_experts(Keys& keys) {
  const ModelSpec& m = keys.model;
  if (!m.moe) return;
  keys.count("expert_count", m.moe->experts);
  keys.count("expert_used_count", m.moe->experts_used);
  keys.count("expert_feed_forward_length", m.moe->expert_ffn);
  const Architecture* const executed = find_architecture(m.architecture);
  if (executed) set_routing(keys, *executed);
  if (!executed || m.moe->dense_layers > 0 || m.moe->shared_ffn > 0) {
    // A file of the first layers alone may have fewer than are dense.
    keys.count("leading_dense_block_count", std::min(m.moe->dense_layers, m.layers));
    keys.count("interleave_moe_layer_step", m.moe->every);
  }
  if (m.moe->shared_ffn == 0) return;
  // Shared experts are as wide as routed ones where they can be; else one has another width.
  const bool alike = m.moe->shared_ffn % m.moe->expert_ffn == 0;
  keys.count("expert_shared_count", alike ? m.moe->shared_ffn / m.moe->expert_ffn : 1);
  keys.count("expert_shared_feed_forward_length", m.moe->shared_ffn);
}

// Layers up to the first that sees all tokens; 0: there is none, or it is the first.
int layers_to_full_attention(const ModelSpec& m) {
  if (m.window) return m.window->full_every;
  if (!m.recurrent || m.recurrent->parallel) return 0;
  const std::vector<int>& irregular = m.recurrent->attention_layers;
  if (!irregular.empty()) return irregular.front() + 1;
  return m.pattern.empty() ? m.recurrent->full_attention_every : int(m.pattern.find('*') + 1);
}

// What llama.cpp does not load, or not without a failed assertion, of a model cut to fewer layers.
std::optional<Error> check_layers(const ModelSpec& m) {
  const auto refusal = [&](std::string needed, std::string why) {
    return bad_input(fmt::format("a file of {} needs {}, not {}", m.name, needed, m.layers),
                     std::move(why));
  };
  if (const int enough = layers_to_full_attention(m); enough > m.layers)
    return refusal(fmt::format("{} layers or more", enough),
                   "so that one of them sees all tokens, for which llama.cpp allocates a cache");
  if (m.architecture == "command-r" && m.qk_norm && m.layers < 64)
    return refusal("64 layers", "by which llama.cpp recognizes that it has norms of heads");
  const bool is_lite = m.architecture == "deepseek2" && m.mla && m.mla->q_lora_rank == 0;
  if (is_lite && m.layers != 26 && m.layers != 27)
    return refusal("26 or 27 layers",
                   "by which llama.cpp recognizes that its queries are not compressed");
  if (m.recurrent && !mixer_widths(m))
    return bad_input(
        fmt::format("the recurrent layers of {} have widths that are not known", m.name));
  return std::nullopt;
}

}  // namespace

std::optional<Error> check_file_architecture(const ModelSpec& model) {
  if (find_architecture(model.architecture))
    if (auto error = check_executable(model)) return error;
  if (find(model.architecture)) return check_layers(model);
  std::vector<std::string_view> names;
  for (const FileArchitecture& a : kArchitectures) names.push_back(a.name);
  return bad_input(
      fmt::format("files of the architecture \"{}\" are not written", model.architecture),
      fmt::format("{} are", fmt::join(names, ", ")));
}

void set_file_metadata(GgufHeader& header, const ModelSpec& model) {
  Keys keys(header, model);
  set_sizes(keys);
  set_attention(keys);
  set_experts(keys);
  set_scalars(keys);
  if (const auto more = find(model.architecture)->more) more(keys);
}

}  // namespace rigcast::engine
