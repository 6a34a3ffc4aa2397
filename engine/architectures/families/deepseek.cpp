// DeepSeek V2 and V3, and models of the same architecture: Kimi K2, GLM-4.7-Flash, Mistral Large 3.
// Mistral Small 4 has a name of its own.

#include <cmath>

#include "engine/architectures/families/families.hpp"

namespace rigcast::engine {

namespace {

// The values of the publishers' config.json, by the vocabulary of Kimi K2 and of GLM-4.7-Flash.
float rope_base(const ModelSpec& spec) {
  constexpr std::int64_t kVocabularyOfKimi = 163'840, kVocabularyOfGlm = 154'880;
  if (spec.vocabulary == kVocabularyOfKimi) return 5e4f;
  return spec.vocabulary == kVocabularyOfGlm ? 1e6f : 1e4f;
}

// Sigmoids came with the bias of the choice, in V3.
void set_latent(const ModelSpec& spec, Hyperparameters& h) {
  if (spec.mla) {
    h.rope_dims = int(spec.mla->qk_rope_dim);
    h.score_scale = 1 / std::sqrt(float(spec.mla->qk_nope_dim + spec.mla->qk_rope_dim));
  }
  if (!spec.moe) return;
  h.routing.sigmoid = h.routing.normalised = spec.moe->router_bias;
  if (h.routing.sigmoid) h.routing.scale = 2.5f;
}

constexpr ScalarKey kScalars[] = {
    {"attention.temperature_scale", &Hyperparameters::temperature, 0},
};

constexpr std::string_view kOwnKeys[] = {
    "attention.key_length_mla",
    "attention.q_lora_rank",
    "attention.temperature_length",
    "attention.value_length_mla",
};

constexpr Architecture latent(std::string_view name) {
  return {.name = name,
          .rope_pairs = RopePairs::kInterleaved,
          .norm_eps = 1e-6f,
          .rope_base = rope_base,
          .scales_queries = true,
          .latent_attention = true,
          .reads_routing = true,
          .set_usual = set_latent,
          .keys = &kDecoderKeys,
          .scalars = kScalars,
          .own_keys = kOwnKeys};
}

constexpr Architecture kArchitectures[] = {latent("deepseek2"), latent("mistral4")};

}  // namespace

std::span<const Architecture> deepseek_family() { return kArchitectures; }

}  // namespace rigcast::engine
