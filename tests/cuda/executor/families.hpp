#pragma once
// Tiny models of the families of architectures that differ from Llama in more than biases and
// norms of heads. Values of traits are such that a model without one computes something else.

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/hyperparameters.hpp"
#include "tests/engine/executor_fixture.hpp"

namespace rigcast::engine::fixtures {

struct Family {
  TinyTraits traits;
  void (*set)(Hyperparameters&) = nullptr;  // in place of the usual values
  void (*set_vectors)(TinyModel&) = nullptr;

  std::string name() const { return traits.architecture + " " + traits.mix; }
};

inline TinyModel model_of(const Family& family) {
  TinyModel tiny = model_of(family.traits);
  if (family.set) family.set(tiny.model.hyper);
  if (family.set_vectors) family.set_vectors(tiny);
  if (family.set) rebind(tiny);
  return tiny;
}

// YaRN whose slow pairs turn at a quarter of their speed, longer queries from token 32 on.
inline void set_mistral3(Hyperparameters& h) {
  h.yarn = Yarn{.context = 64, .fast = 8, .slow = 1};
  h.rope_scale = 0.25f;
  h.rope_magnitude = 1.06f;
  h.temperature = 0.2f;
  h.temperature_tokens = 32;
}

// The longer of two vectors of factors.
inline void set_longrope(Hyperparameters& h) {
  h.rope_context = 128;
  h.rope_magnitude = 1.1f;
}

// Caps that bend most scores and logits.
inline void set_gemma2(Hyperparameters& h) {
  h.score_scale = 0.2f;
  h.score_softcap = 1.5f;
  h.logit_softcap = 2;
}

// Two rotations.
inline void set_scaled_rope(Hyperparameters& h) { h.rope_scale = 0.125f; }

// No model has it with experts, but what adds their sums is another kernel.
inline void set_scaled_branches(Hyperparameters& h) {
  h.embedding_scale = 0.5f;
  h.residual_scale = 3;
}

// Scores that are near 1 without a scale, factors of the wide heads' pairs, and scales of layers.
inline void set_gemma4_vectors(TinyModel& tiny) {
  const ModelSpec& m = tiny.model.spec;
  const auto ramp = [](float first, float last, std::int64_t count) {
    std::vector<float> out;
    for (std::int64_t i = 0; i < count; ++i)
      out.push_back(first + (last - first) * float(i) / float(count));
    return out;
  };
  set_weights(tiny, "rope_freqs.weight", ramp(1, 9, tiny.model.hyper.rope_dims / 2));
  for (int layer = 0; layer < m.layers; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    const std::int64_t dim = m.head_dim_of(layer);
    const float even = 1 / std::sqrt(float(dim));  // with keys of about 1, scores are, too
    set_weights(tiny, block + "attn_q_norm.weight", ramp(0.5f * even, 1.5f * even, dim));
    set_weights(tiny, block + "layer_output_scale.weight",
                std::vector<float>{0.6f + 0.15f * float(layer)});
    if (m.moe) set_weights(tiny, block + "ffn_down_exps.scale", ramp(0.5f, 1.5f, m.moe->experts));
  }
}
inline void set_gemma4(Hyperparameters& h) { h.logit_softcap = 2; }

// Queries that grow from token 32 on, in layers without RoPE.
inline void set_llama4(Hyperparameters& h) {
  h.temperature = 0.2f;
  h.temperature_tokens = 32;
}

// YaRN, as Mistral 3's, and DeepSeek V3's.
inline void set_gpt_oss(Hyperparameters& h) {
  set_mistral3(h);
  h.temperature = 0;
}

// Sinks as large as scores, biases that decide between experts' weights, and some by which gates
// and ups reach the bounds of their clamps.
inline void set_gpt_oss_vectors(TinyModel& tiny) {
  const ModelSpec& m = tiny.model.spec;
  const auto count = [](std::int64_t n) { return std::size_t(n); };
  const std::size_t inner = count(m.moe->experts * m.moe->expert_ffn);
  std::vector<float> sinks(count(m.heads)), router(count(m.moe->experts)), gate(inner), up(inner),
      down(count(m.moe->experts * m.hidden));
  for (std::size_t i = 0; i < sinks.size(); ++i) sinks[i] = float(i) - 1;
  for (std::size_t i = 0; i < router.size(); ++i) router[i] = 0.25f * float(i % 5);
  for (std::size_t i = 0; i < inner; ++i) {
    gate[i] = i % 16 == 3 ? 9.0f : i % 16 == 9 ? -9.0f : 0.3f;
    up[i] = i % 32 == 5 ? 9.0f : i % 32 == 21 ? -9.0f : -0.2f;
  }
  for (std::size_t i = 0; i < down.size(); ++i) down[i] = float(i % 37) / 36 - 0.5f;
  for (int layer = 0; layer < m.layers; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    set_weights(tiny, block + "attn_sinks.weight", sinks);
    set_weights(tiny, block + "ffn_gate_inp.bias", router);
    set_weights(tiny, block + "ffn_gate_exps.bias", gate);
    set_weights(tiny, block + "ffn_up_exps.bias", up);
    set_weights(tiny, block + "ffn_down_exps.bias", down);
  }
}

// Biases of the choice by which every token has one expert, and its own beside it.
inline void set_selection_bias(TinyModel& tiny, const std::vector<float>& bias) {
  for (int layer = 0; layer < tiny.model.spec.layers; ++layer)
    for (const char* const name : {".exp_probs_b.bias", ".exp_probs_b"})
      if (const std::string own = "blk." + std::to_string(layer) + name; tiny.find(own))
        set_weights(tiny, own, bias);
}
inline void prefer_one_expert(TinyModel& tiny) {
  std::vector<float> bias(std::size_t(tiny.model.spec.moe->experts));
  bias[5] = 1.5f;
  set_selection_bias(tiny, bias);
}

// Of 16 experts in four groups: those of the second, though one of the first has a larger score
// than its third.
inline void set_groups(Hyperparameters& h) {
  h.routing.groups = 4;
  h.routing.groups_used = 1;
}
inline void prefer_one_group(TinyModel& tiny) {
  set_selection_bias(tiny, {3, 0, 0, 0, 0, 4, 4, 2, 0, 0, 0, 0, 0, 0, 0, 0});
}

// Experts of gpt-oss are in MXFP4 whatever its mix, except here: those of floats have tolerances of
// floats.
inline void give_mix(Family& family, const std::string& mix) {
  TinyTraits& t = family.traits;
  t.mix = mix;
  t.format.reset();
  if (t.architecture != "gpt-oss") return;
  if (mix == "F16") t.format = QuantFormat::kF16;
  if (mix == "F32") t.format = QuantFormat::kF32;
}

/// `mix`: of all of them.
inline std::vector<Family> families(const std::string& mix) {
  std::vector<Family> all = {
      {{.architecture = "phi3", .kv_heads = 4}},
      {{.architecture = "phi3", .window = 40, .rope_factors = 24}, set_longrope},
      {{.architecture = "granite", .tied = true}},
      {{.architecture = "smollm3", .layers = 4, .tied = true}},
      {{.architecture = "seed_oss"}},
      {{.architecture = "mistral3"}, set_mistral3},
      {{.architecture = "ernie4_5", .tied = true}},
      {{.architecture = "qwen2vl"}},
      {{.architecture = "qwen3vl"}},
      {{.architecture = "olmo2"}},
      {{.architecture = "olmo2", .window = 40, .window_full_every = 3}, set_scaled_rope},  // OLMo 3
      {{.architecture = "olmoe", .experts = 8}},
      {{.architecture = "olmoe", .experts = 8}, set_scaled_branches},
      {{.architecture = "exaone4", .window = 40, .window_full_every = 3}},
      {{.architecture = "glm4"}},
      {{.architecture = "gemma", .kv_heads = 1, .tied = true}},
      {{.architecture = "gemma2", .tied = true, .window = 40, .window_full_every = 2}, set_gemma2},
      {{.architecture = "gemma3",
        .heads = 2,
        .kv_heads = 1,
        .head_dim = 256,
        .tied = true,
        .window = 40,
        .window_full_every = 3},
       set_scaled_rope},
      {{.architecture = "command-r", .tied = true}},
      {{.architecture = "command-r", .tied = true, .qk_norm = true}},
      {{.architecture = "cohere2", .tied = true, .window = 40, .window_full_every = 3}},
      {{.architecture = "falcon", .kv_heads = 1}},
      {{.architecture = "phi2", .kv_heads = 4}},
      {{.architecture = "apertus"}},
      {{.architecture = "llama4",
        .experts = 8,
        .experts_used = 1,
        .shared_ffn = 512,
        .every = 2,
        .window = 40,
        .window_full_every = 3,
        .rope_freqs = true},
       set_llama4},
      {{.architecture = "llama4",
        .experts = 8,
        .experts_used = 1,
        .shared_ffn = 320,
        .window = 48,
        .window_full_every = 2},
       set_llama4},
      {{.architecture = "gemma4",
        .heads = 2,
        .kv_heads = 2,
        .head_dim = 256,
        .tied = true,
        .window = 40,
        .window_full_every = 3,
        .full_head_dim = 512,
        .full_kv_heads = 1,
        .full_key_is_value = true,
        .rope_freqs = true},
       set_gemma4,
       set_gemma4_vectors},
      // Gemma 4 E4B: later layers attend to the caches of earlier ones; then without inputs.
      {{.architecture = "gemma4",
        .heads = 2,
        .kv_heads = 2,
        .head_dim = 256,
        .layers = 6,
        .tied = true,
        .window = 40,
        .window_full_every = 3,
        .full_head_dim = 512,
        .shared_kv_layers = 3,
        .layer_embedding = 64,
        .rope_freqs = true},
       set_gemma4,
       set_gemma4_vectors},
      {{.architecture = "gemma4",
        .layers = 6,
        .tied = true,
        .window = 40,
        .window_full_every = 3,
        .full_head_dim = 128,
        .shared_kv_layers = 3,
        .rope_freqs = true},
       set_gemma4,
       set_gemma4_vectors},
      // Gemma 4 26B-A4B: experts beside a dense FFN, each between norms of its own.
      {{.architecture = "gemma4",
        .tied = true,
        .experts = 8,
        .experts_used = 3,
        .shared_ffn = 768,
        .window = 40,
        .window_full_every = 3,
        .full_head_dim = 128,
        .full_kv_heads = 1,
        .full_key_is_value = true,
        .rope_freqs = true},
       set_gemma4,
       set_gemma4_vectors},
      {{.architecture = "gpt-oss",
        .heads = 8,
        .kv_heads = 1,
        .experts = 8,
        .experts_used = 3,
        .window = 40,
        .window_full_every = 2},
       set_gpt_oss,
       set_gpt_oss_vectors},
      // Shared experts as wide as others, in more and in fewer blocks of the same launch, and of a
      // width that no format of 256 has.
      {{.architecture = "qwen2moe", .experts = 8, .shared_ffn = 768}},
      {{.architecture = "glm4moe", .experts = 8, .shared_ffn = 512, .dense_layers = 1},
       nullptr,
       prefer_one_expert},
      {{.architecture = "minimax-m2", .experts = 8}, nullptr, prefer_one_expert},
      {{.architecture = "ernie4_5-moe", .experts = 8, .shared_ffn = 1024, .dense_layers = 1},
       nullptr,
       prefer_one_expert},
      {{.architecture = "hunyuan-moe", .experts = 8, .shared_ffn = 320}},
      {{.architecture = "bailingmoe2",
        .experts = 16,
        .experts_used = 3,
        .shared_ffn = 512,
        .dense_layers = 1},
       set_groups,
       prefer_one_group},
      {{.architecture = "dots1",
        .kv_heads = 4,
        .experts = 8,
        .shared_ffn = 1024,
        .dense_layers = 1},
       nullptr,
       prefer_one_expert},
      {{.architecture = "exaone-moe",
        .experts = 8,
        .shared_ffn = 512,
        .dense_layers = 1,
        .window = 40,
        .window_full_every = 3},
       nullptr,
       prefer_one_expert},
      {{.architecture = "hy_v3", .experts = 8, .shared_ffn = 256, .dense_layers = 1},
       nullptr,
       prefer_one_expert},
      // Latent attention, with heads in more than one thread block, and as Mistral 4 has it.
      {{.architecture = "deepseek2",
        .experts = 8,
        .shared_ffn = 512,
        .dense_layers = 1,
        .latent = true,
        .selection_bias = true},
       set_gpt_oss,
       prefer_one_expert},
      {{.architecture = "deepseek2",
        .heads = 20,
        .experts = 8,
        .shared_ffn = 1024,
        .dense_layers = 1,
        .latent = true,
        .q_lora_rank = 0}},
      {{.architecture = "mistral4", .experts = 8, .shared_ffn = 512, .latent = true}, set_mistral3},
      {{.architecture = "lfm2"}},
      {{.architecture = "qwen35", .layers = 4}},
      {{.architecture = "granitehybrid"}},
      {{.architecture = "lfm2moe", .experts = 8, .dense_layers = 1}, nullptr, prefer_one_expert},
      {{.architecture = "qwen35moe", .layers = 4, .experts = 8, .shared_ffn = 512}},
      {{.architecture = "granitehybrid", .experts = 8, .shared_ffn = 512}},
      // Attention and a mixer of one norm; layers of one block alone, without gates.
      {{.architecture = "falcon-h1"}},
      {{.architecture = "nemotron_h", .layers = 4}},
      // A seed without a near tie of experts, of which rounding would choose the other.
      {{.architecture = "nemotron_h_moe", .layers = 4, .experts = 8, .shared_ffn = 768, .seed = 2},
       nullptr,
       prefer_one_expert},
  };
  for (Family& f : all) {
    give_mix(f, mix);
    if (f.traits.layers == TinyTraits().layers) f.traits.layers = 3;
  }
  return all;
}

/// The same, with mixes that take turns.
inline std::vector<Family> families(const std::vector<std::string>& mixes) {
  std::vector<Family> all = families(mixes.front());
  for (std::size_t i = 0; i < all.size(); ++i) give_mix(all[i], mixes[i % mixes.size()]);
  return all;
}

}  // namespace rigcast::engine::fixtures
