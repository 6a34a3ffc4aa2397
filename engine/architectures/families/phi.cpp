// Phi-3, Phi-4 and Phi-4-mini: q, k and v in one matrix, gate and up in one; longrope.

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

constexpr Architecture kArchitectures[] = {{.name = "phi3",
                                            .rope_pairs = RopePairs::kNeox,
                                            .norm_eps = 1e-5f,
                                            .rope_base = rope_base,
                                            .set_usual = set_longrope,
                                            .keys = &kDecoderKeys}};

}  // namespace

std::span<const Architecture> phi_family() { return kArchitectures; }

}  // namespace rigcast::engine
