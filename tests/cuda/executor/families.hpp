#pragma once
// Tiny models of the families of architectures that differ from Llama in more than biases and
// norms of heads. Values of traits are such that a model without one computes something else.

#include <string>
#include <utility>
#include <vector>

#include "engine/model/hyperparameters.hpp"
#include "tests/engine/executor_fixture.hpp"

namespace rigcast::engine::fixtures {

struct Family {
  TinyTraits traits;
  void (*set)(Hyperparameters&) = nullptr;  // in place of the usual values

  std::string name() const { return traits.architecture + " " + traits.mix; }
};

inline TinyModel model_of(const Family& family) {
  TinyModel tiny = model_of(family.traits);
  if (!family.set) return tiny;
  family.set(tiny.model.hyper);
  rebind(tiny);
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
  };
  for (Family& f : all) {
    f.traits.mix = mix;
    if (f.traits.layers == TinyTraits().layers) f.traits.layers = 3;
  }
  return all;
}

/// The same, with mixes that take turns.
inline std::vector<Family> families(const std::vector<std::string>& mixes) {
  std::vector<Family> all = families(mixes.front());
  for (std::size_t i = 0; i < all.size(); ++i) all[i].traits.mix = mixes[i % mixes.size()];
  return all;
}

}  // namespace rigcast::engine::fixtures
