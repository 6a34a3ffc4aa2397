// Phi-3, Phi-4 and Phi-4-mini: q, k and v in one matrix, gate and up in one; longrope. Phi-2:
// biases everywhere, attention and an FFN without a gate read one norm. Phi-3.5 MoE: biases of
// norms and attention, and experts, which are chosen and weighted as llama.cpp does.

#include <cmath>

#include "engine/architectures/families/families.hpp"

namespace rigcast::engine {

namespace {

constexpr std::int64_t kVocabularyOfPhi4 = 100'352;

float rope_base(const ModelSpec& spec) {
  return spec.vocabulary == kVocabularyOfPhi4 ? 2.5e5f : 1e4f;
}

// Longrope of the models of 128k tokens: a factor for each pair that rotates.
void set_longrope(const ModelSpec& spec, Hyperparameters& h) {
  if (spec.rope_factors == 0) return;
  constexpr float kTrained = 4096;
  h.rope_dims = int(2 * spec.rope_factors);
  h.rope_context = kTrained;
  const float factor = float(spec.context) / kTrained;
  if (factor > 1) h.rope_magnitude = std::sqrt(1 + std::log(factor) / std::log(kTrained));
}

float rope_base_of_phi2(const ModelSpec&) { return 1e4f; }

// Two of five elements of a head turn.
void rotate_part(const ModelSpec& spec, Hyperparameters& h) {
  h.rope_dims = int(spec.head_dim * 2 / 5 / 2 * 2);
}

constexpr Architecture kArchitectures[] = {{.name = "phi2",
                                            .rope_pairs = RopePairs::kNeox,
                                            .norm_eps = 1e-5f,
                                            .rope_base = rope_base_of_phi2,
                                            .norms = NormPlan::kShared,
                                            .layer_norm = true,
                                            .activation = FfnActivation::kGelu,
                                            .set_usual = rotate_part,
                                            .keys = &kDecoderKeys},
                                           {.name = "phi3",
                                            .rope_pairs = RopePairs::kNeox,
                                            .norm_eps = 1e-5f,
                                            .rope_base = rope_base,
                                            .set_usual = set_longrope,
                                            .keys = &kDecoderKeys},
                                           {.name = "phimoe",
                                            .rope_pairs = RopePairs::kNeox,
                                            .norm_eps = 1e-5f,
                                            .rope_base = rope_base,
                                            .biased_norms = true,
                                            .set_usual = set_longrope,
                                            .keys = &kDecoderKeys}};

}  // namespace

std::span<const Architecture> phi_family() { return kArchitectures; }

}  // namespace rigcast::engine
