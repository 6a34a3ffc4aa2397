#pragma once
// Tiny files of every family that is executed, as synth writes them, with the keys that make its
// traits count within some hundred tokens.

#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/model/tensor_table.hpp"
#include "engine/gguf/header.hpp"
#include "engine/model/file_tensors.hpp"
#include "engine/synth/file_metadata.hpp"
#include "engine/synth/synth.hpp"
#include "tests/engine/random_values.hpp"
#include "tests/engine/tiny_model.hpp"

namespace rigcast::engine::fixtures {

using KeyValue = std::variant<float, std::uint32_t, std::string, std::vector<std::int32_t>>;

struct FamilyFile {
  std::string name;
  TinyTraits traits;
  std::vector<std::pair<std::string, KeyValue>> keys{};  // after "<architecture>."
  // Values of vectors in place of the synthetic ones, by name.
  std::vector<std::pair<std::string, std::vector<float>>> vectors{};
  std::string mix = "F32";
  double largest_score = 1;  // of attention, about; larger ones carry larger roundings
  // Of experts, in place of the mix's: any mix has those of gpt-oss in MXFP4.
  std::optional<QuantFormat> expert_format{};
  bool as_llama_cpp = true;  // false: llama.cpp overrides a key by a constant, or aborts
};

/// By default too narrow for blocks of 256, which kWideFamilies have everywhere.
struct FamilySizes {
  std::int64_t hidden = 128, ffn = 160;
  int heads = 4, kv_heads = 2;
};
inline constexpr FamilySizes kWideFamilies{256, 256, 8, 4};

/// Heads of 32, two to a KV head; each with its own of what is asked for.
inline TinyTraits family_traits(std::string architecture, const FamilySizes& sizes = {}) {
  TinyTraits t;
  t.architecture = std::move(architecture);
  t.hidden = sizes.hidden;
  t.heads = sizes.heads;
  t.kv_heads = sizes.kv_heads;
  t.head_dim = 32;
  t.ffn = sizes.ffn;
  t.layers = 4;
  t.vocabulary = 200;
  return t;
}

inline std::vector<std::pair<std::string, KeyValue>> yarn_keys() {
  return {{"rope.scaling.type", std::string("yarn")},
          {"rope.scaling.factor", 8.0f},
          {"rope.scaling.original_context_length", std::uint32_t(64)}};
}

inline std::vector<float> ramp_factors(float first, float step, std::size_t count) {
  std::vector<float> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(first + step * float(i));
  return out;
}

inline std::vector<FamilyFile> windowed_files(const FamilySizes& sizes = {}) {
  const auto windowed = [&](const char* architecture, int every) {
    TinyTraits t = family_traits(architecture, sizes);
    t.window = 48;
    t.window_full_every = every;
    return t;
  };
  std::vector<FamilyFile> out = {{"olmo2", family_traits("olmo2", sizes)},
                                 {"olmo3", windowed("olmo2", 4)},
                                 {"olmo3-yarn", windowed("olmo2", 4), yarn_keys()},
                                 {"exaone4", family_traits("exaone4", sizes)},
                                 {"exaone4-windows", windowed("exaone4", 4)},
                                 {"gemma", family_traits("gemma", sizes)},
                                 {"gemma2", windowed("gemma2", 2)},
                                 {"gemma3", windowed("gemma3", 6)}};
  out.push_back({"cohere2", windowed("cohere2", 4)});
  out.back().traits.tied = true;
  // llama.cpp recognizes the model with windows by its 64 layers.
  out[4].traits.layers = 64;
  out[5].traits.tied = out[6].traits.tied = out[7].traits.tied = true;
  // Scores and logits as large as their caps.
  for (int i = 0; i < 4; ++i)
    out[6].vectors.emplace_back("blk." + std::to_string(i) + ".attn_norm.weight",
                                std::vector<float>(std::size_t(sizes.hidden), 6.0f));
  out[6].vectors.emplace_back("output_norm.weight",
                              std::vector<float>(std::size_t(sizes.hidden), 20.0f));
  out[6].largest_score = 50;
  out[7].traits.layers = 6;
  out[7].keys = {{"rope.scaling.factor", 8.0f}, {"rope.scaling.type", std::string("linear")}};
  return out;
}

/// Sinks as large as scores, and biases by which gates and ups reach the bounds of their clamps.
inline FamilyFile gpt_oss_file(const FamilySizes& sizes = {}) {
  FamilyFile out{"gpt-oss", family_traits("gpt-oss", sizes), yarn_keys()};
  out.traits.window = 48;
  out.traits.window_full_every = 2;
  out.traits.experts = 8;
  out.traits.experts_used = 3;
  out.expert_format = QuantFormat::kF32;
  const auto inner = std::size_t(out.traits.ffn * out.traits.experts);
  for (int i = 0; i < out.traits.layers; ++i) {
    const std::string block = "blk." + std::to_string(i) + ".";
    out.vectors.emplace_back(block + "attn_sinks.weight",
                             ramp_factors(-1, 8 / float(sizes.heads), std::size_t(sizes.heads)));
    out.vectors.emplace_back(block + "ffn_gate_inp.bias", ramp_factors(0, 0.1f, 8));
    out.vectors.emplace_back(block + "ffn_gate_exps.bias",
                             ramp_factors(-9, 18 / float(inner), inner));
    out.vectors.emplace_back(block + "ffn_up_exps.bias",
                             ramp_factors(9, -18 / float(inner), inner));
  }
  return out;
}

/// Every third layer sees all tokens, with wider heads of which one keeps keys and values, whose
/// pairs turn by factors; the scale of every layer is another.
inline FamilyFile gemma4_file(const FamilySizes& sizes = {}) {
  FamilyFile out{"gemma4", family_traits("gemma4", sizes)};
  out.traits.layers = 6;
  out.traits.tied = out.traits.rope_freqs = true;
  out.traits.window = 48;
  out.traits.window_full_every = 3;
  out.traits.full_head_dim = 64;
  out.traits.full_kv_heads = 1;
  out.traits.full_key_is_value = true;
  out.vectors.emplace_back("rope_freqs.weight", ramp_factors(1, 0.25f, 32));
  // Scores are not divided by anything: norms of queries keep them near 1.
  for (int i = 0; i < 8; ++i) {
    const std::string block = "blk." + std::to_string(i) + ".";
    out.vectors.emplace_back(block + "layer_output_scale.weight",
                             std::vector<float>{0.5f + 0.1f * float(i)});
    const std::size_t width = i % 3 == 2 ? 64 : 32;
    out.vectors.emplace_back(block + "attn_q_norm.weight",
                             ramp_factors(0.1f, 0.1f / float(width), width));
  }
  return out;
}

/// The last five layers attend to the cache of the third and the second, by their windows, and
/// tokens have an input of every layer.
inline FamilyFile gemma4_small_file(const FamilySizes& sizes = {}) {
  FamilyFile out = gemma4_file(sizes);
  out.name = "gemma4-small";
  out.traits.layers = 8;
  out.traits.full_key_is_value = false;
  out.traits.full_kv_heads = 0;
  out.traits.shared_kv_layers = 5;
  out.traits.layer_embedding = 32;
  return out;
}

/// Experts beside a dense FFN. Routers' scales make logits near 1, and experts have scales of their
/// own.
inline FamilyFile gemma4_experts_file(const FamilySizes& sizes = {}) {
  FamilyFile out = gemma4_file(sizes);
  out.name = "gemma4-experts";
  out.traits.experts = 8;
  out.traits.experts_used = 3;
  out.traits.shared_ffn = 2 * sizes.ffn;
  for (int i = 0; i < out.traits.layers; ++i) {
    const std::string block = "blk." + std::to_string(i) + ".";
    const auto hidden = std::size_t(sizes.hidden);
    out.vectors.emplace_back(block + "ffn_gate_inp.scale",
                             ramp_factors(8, 8 / float(hidden), hidden));
    out.vectors.emplace_back(block + "ffn_down_exps.scale", ramp_factors(0.5f, 0.15f, 8));
    const auto norm = [&](const char* name, float first, float last) {
      out.vectors.emplace_back(block + name,
                               ramp_factors(first, (last - first) / float(hidden), hidden));
    };
    norm("pre_ffw_norm_2.weight", 1.5f, 0.5f);
    norm("post_ffw_norm_1.weight", 0.3f, 0.9f);
    norm("post_ffw_norm_2.weight", 1.2f, 0.6f);
  }
  return out;
}

/// Mixtures with a shared expert, or whose router is no plain softmax. Biases of the choice differ
/// by as much as probabilities do.
inline std::vector<FamilyFile> routed_files(const FamilySizes& sizes = {}) {
  struct Case {
    const char* name;
    const char* architecture;
    std::int64_t shared_experts = 0;  // as wide as one of the others
    int dense_layers = 0, nextn_layers = 0;
    float bias_step = 0;
  };
  const Case cases[] = {{"qwen2moe", "qwen2moe", 2},
                        {"glm4moe", "glm4moe", 1, 1, 1, 0.05f},
                        {"glm4moe-norms", "glm4moe", 2, 2, 0, 0.05f},
                        {"minimax-m2", "minimax-m2", 0, 0, 0, 0.05f},
                        {"ernie4_5-moe", "ernie4_5-moe", 2, 1, 0, 0.03f},
                        {"hunyuan-moe", "hunyuan-moe", 1},
                        {"bailingmoe2", "bailingmoe2", 1, 1, 0, 0.05f},
                        {"dots1", "dots1", 2, 1, 0, 0.05f},
                        {"exaone-moe", "exaone-moe", 1, 1, 0, 0.05f},
                        {"hy_v3", "hy_v3", 1, 1, 0, 0.05f},
                        {"qwen35moe", "qwen35moe", 1},
                        {"qwen3next", "qwen3next", 1},
                        {"lfm2moe", "lfm2moe", 0, 1, 0, 0.05f},
                        {"granitehybrid-moe", "granitehybrid", 2},
                        {"nemotron_h_moe", "nemotron_h_moe", 2, 0, 0, 0.05f}};
  std::vector<FamilyFile> out;
  for (const Case& c : cases) {
    FamilyFile f{c.name, family_traits(c.architecture, sizes)};
    f.traits.experts = f.name == "bailingmoe2" ? 16 : 8;
    f.traits.experts_used = 3;
    f.traits.shared_ffn = c.shared_experts * sizes.ffn;
    f.traits.dense_layers = c.dense_layers;
    f.traits.nextn_layers = c.nextn_layers;
    f.traits.qk_norm = f.name == "glm4moe-norms";
    // llama.cpp takes dots.llm1's keys to be of as many heads as its queries.
    if (f.name == "dots1") f.traits.kv_heads = f.traits.heads;
    if (f.name == "bailingmoe2") {
      f.keys.emplace_back("expert_group_count", 4u);
      f.keys.emplace_back("expert_group_used_count", 2u);
    }
    if (f.name == "exaone-moe") {
      f.traits.window = 48;
      f.traits.window_full_every = 4;
    }
    const char* const bias = f.name == "hy_v3" ? ".exp_probs_b" : ".exp_probs_b.bias";
    for (int i = c.dense_layers; c.bias_step > 0 && i < f.traits.layers; ++i)
      f.vectors.emplace_back("blk." + std::to_string(i) + bias,
                             ramp_factors(-0.2f, c.bias_step, std::size_t(f.traits.experts)));
    out.push_back(std::move(f));
  }
  return out;
}

/// Latent attention: with YaRN and all that DeepSeek V3 has; queries that are not compressed, which
/// llama.cpp knows by the 26 layers; queries that are scaled by their position.
inline std::vector<FamilyFile> latent_files(const FamilySizes& sizes = {}) {
  const auto latent = [&](const char* name, const char* architecture, bool yarn) {
    FamilyFile f{name, family_traits(architecture, sizes)};
    f.traits.latent = true;
    f.traits.experts = 8;
    f.traits.experts_used = 3;
    f.traits.shared_ffn = sizes.ffn;
    f.traits.dense_layers = 1;
    if (yarn) f.keys = yarn_keys();
    return f;
  };
  FamilyFile v3 = latent("deepseek-v3", "deepseek2", true);
  v3.traits.selection_bias = true;
  v3.keys.emplace_back("rope.scaling.yarn_log_multiplier", 0.1f);
  v3.keys.emplace_back("expert_group_count", 4u);
  v3.keys.emplace_back("expert_group_used_count", 2u);
  for (int i = 1; i < v3.traits.layers; ++i)
    v3.vectors.emplace_back("blk." + std::to_string(i) + ".exp_probs_b.bias",
                            ramp_factors(-0.2f, 0.05f, 8));
  FamilyFile v2 = latent("deepseek-v2", "deepseek2", true);
  v2.keys.emplace_back("rope.scaling.yarn_log_multiplier", 0.0707f);
  FamilyFile lite = latent("deepseek-v2-lite", "deepseek2", false);
  lite.traits.q_lora_rank = 0;
  lite.traits.layers = 26;
  FamilyFile large = latent("mistral-large-3", "deepseek2", true);
  large.keys.emplace_back("attention.temperature_scale", 0.5f);
  large.keys.emplace_back("attention.temperature_length", 64u);
  FamilyFile small = latent("mistral4", "mistral4", true);
  small.traits.dense_layers = 0;
  small.keys.emplace_back("rope.scaling.yarn_log_multiplier", 0.1f);
  return {v3, v2, lite, large, small};
}

/// Llama 4 in chunks as long as llama.cpp takes them to be, and in shorter ones; with as many
/// experts as those have that norm no heads, in every second layer.
inline std::vector<FamilyFile> llama4_files(const FamilySizes& sizes = {}) {
  std::vector<FamilyFile> out;
  for (const char* name : {"llama4", "llama4-chunks", "llama4-128"}) {
    FamilyFile f{name, family_traits("llama4", sizes)};
    TinyTraits& t = f.traits;
    const bool wide = f.name == "llama4-128";
    f.as_llama_cpp = f.name != "llama4-chunks";
    t.window = f.as_llama_cpp ? 8192 : 48;
    t.window_full_every = 4;
    t.experts = wide ? 128 : 8;
    t.ffn = wide ? 32 : sizes.ffn;
    t.every = wide ? 2 : 1;
    t.experts_used = 1;
    t.shared_ffn = t.ffn;
    t.rope_freqs = !wide;
    if (!wide) f.vectors.emplace_back("rope_freqs.weight", ramp_factors(1, 0.25f, 16));
    out.push_back(std::move(f));
  }
  return out;
}

inline std::vector<FamilyFile> family_files(const FamilySizes& sizes = {}) {
  std::vector<FamilyFile> out;
  for (const char* plain :
       {"llama", "qwen2", "qwen3", "qwen2vl", "qwen3vl", "granite", "smollm3", "seed_oss",
        "ernie4_5", "glm4", "phi3", "phi2", "falcon", "apertus", "command-r"})
    out.push_back({plain, family_traits(plain, sizes)});
  for (const char* long_one : {"llama", "qwen3"})
    out.push_back({std::string(long_one) + "-yarn", family_traits(long_one, sizes), yarn_keys()});
  auto temperature = yarn_keys();
  temperature.emplace_back("attention.temperature_scale", 0.5f);
  temperature.emplace_back("rope.scaling.yarn_log_multiplier", 1.0f);
  temperature.emplace_back("rope.scaling.yarn_beta_fast", 16.0f);
  out.push_back({"mistral3", family_traits("mistral3", sizes), temperature});
  // Three quarters of a head turn, by factors for contexts up to 4096 and for longer ones.
  for (const std::int64_t context : {512, 8192}) {
    TinyTraits longrope = family_traits("phi3", sizes);
    longrope.rope_factors = 12;
    longrope.context = context;
    out.push_back({context > 4096 ? "phi3-longrope" : "phi3-shortrope",
                   longrope,
                   {},
                   {{"rope_factors_long.weight", ramp_factors(1, 3, 12)},
                    {"rope_factors_short.weight", ramp_factors(1, 0.1f, 12)}}});
  }
  // Of norms' biases that differ; factors for short contexts.
  out.push_back({"phimoe", family_traits("phimoe", sizes)});
  out.back().traits.experts = 8;
  out.back().traits.experts_used = 3;
  out.back().traits.rope_factors = 16;
  out.back().vectors = {{"rope_factors_short.weight", ramp_factors(1, 0.1f, 16)},
                        {"rope_factors_long.weight", ramp_factors(1, 3, 16)}};
  for (int i = 0; i < out.back().traits.layers; ++i)
    for (const char* name : {".attn_norm.bias", ".ffn_norm.bias"})
      out.back().vectors.emplace_back(
          "blk." + std::to_string(i) + name,
          ramp_factors(-0.5f, 1 / float(sizes.hidden), std::size_t(sizes.hidden)));
  for (const char* mixture : {"qwen3moe", "qwen3vlmoe", "olmoe"}) {
    TinyTraits t = family_traits(mixture, sizes);
    t.experts = 8;
    t.experts_used = 3;
    // llama.cpp takes OLMoE's norm over all keys to be as wide as the embedding.
    if (t.architecture == "olmoe") t.kv_heads = t.heads;
    out.push_back({mixture, t});
  }
  out.push_back(gpt_oss_file(sizes));
  out.push_back(gemma4_file(sizes));
  out.push_back(gemma4_small_file(sizes));
  out.push_back(gemma4_experts_file(sizes));
  // llama.cpp recognizes the model that norms heads by its 64 layers.
  out.push_back({"command-r-norms", family_traits("command-r", sizes)});
  out.back().traits.layers = 64;
  out.back().traits.qk_norm = true;
  for (FamilyFile& f : out) f.traits.tied = f.traits.tied || f.traits.architecture == "command-r";
  for (const char* recurrent : {"qwen35", "lfm2", "granitehybrid", "falcon-h1", "nemotron_h"})
    out.push_back({recurrent, family_traits(recurrent, sizes)});
  // No layer attends, which llama.cpp's library does not allow for.
  out.push_back({"qwen35-recurrent", family_traits("qwen35", sizes)});
  out.back().traits.layers = 3;
  out.back().as_llama_cpp = false;
  for (FamilyFile& f : windowed_files(sizes)) out.push_back(std::move(f));
  for (FamilyFile& f : routed_files(sizes)) out.push_back(std::move(f));
  for (FamilyFile& f : latent_files(sizes)) out.push_back(std::move(f));
  for (FamilyFile& f : llama4_files(sizes)) out.push_back(std::move(f));
  return out;
}

/// The family without what rounding could decide: every token has all experts.
inline FamilyFile without_choice(FamilyFile f) {
  f.traits.experts_used = f.traits.experts;
  for (auto& [key, value] : f.keys)
    if (key == "expert_group_count" || key == "expert_group_used_count") value = 1u;
  return f;
}

/// The spec of a file, with a context for its tests.
inline ModelSpec spec_of(const FamilyFile& f) {
  ModelSpec spec = tiny_spec(f.traits);
  spec.name = f.name;
  return spec;
}

inline void set_keys(const FamilyFile& f, const ModelSpec& spec, GgufHeader& to) {
  to.set("general.architecture", spec.architecture);
  to.set("general.name", spec.name);
  to.set("tokenizer.ggml.model", "no_vocab");
  set_file_metadata(to, spec);
  for (const auto& [key, value] : f.keys)
    std::visit([&, key = key](const auto& v) { to.set(spec.architecture + "." + key, v); }, value);
}

inline bool is_expert(TensorRole role) {
  return role == TensorRole::kExpertGate || role == TensorRole::kExpertUp ||
         role == TensorRole::kExpertDown;
}

/// The bytes of the file.
inline std::string bytes_of(const FamilyFile& f) {
  const ModelSpec spec = spec_of(f);
  const auto mix = QuantMix::from_name(f.mix);
  RIGCAST_ASSERT(mix.ok());
  const auto own = make_tensor_table(spec, *mix);
  RIGCAST_ASSERT(own.ok());
  std::optional<TensorTable> table = file_tensors(spec, *own);
  for (Tensor& t : table->tensors)
    if (f.expert_format && is_expert(t.role)) {
      t.format = *f.expert_format;
      t.bytes = tensor_bytes(t.format, t.shape[0], t.shape[1] * t.shape[2]);
    }
  GgufHeader header;
  set_keys(f, spec, header);
  for (const Tensor& t : table->tensors)
    header.add_tensor(t.name, t.format, std::span(t.shape.data(), std::size_t(t.dimensions)));
  std::string out = header.encode();
  const std::size_t begin = out.size();
  out.resize(begin + std::size_t(header.data_bytes()), '\0');
  for (std::size_t i = 0; i < table->tensors.size(); ++i) {
    const Tensor& t = table->tensors[i];
    char* const at = out.data() + begin + header.tensors()[i].offset;
    synthesize(t, 1, 0, std::as_writable_bytes(std::span(at, std::size_t(t.bytes))));
    for (const auto& [name, values] : f.vectors)
      if (name == t.name) std::memcpy(at, values.data(), values.size() * sizeof(float));
  }
  return out;
}

}  // namespace rigcast::engine::fixtures
