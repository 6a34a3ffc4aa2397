// GLM 4, dense: four norms, gate and up in one matrix, half of a head rotates.

#include "engine/architectures/families/families.hpp"

namespace rigcast::engine {

namespace {

float rope_base(const ModelSpec&) { return 1e4f; }

void rotate_half(const ModelSpec& spec, Hyperparameters& h) {
  h.rope_dims = int(spec.head_dim / 2);
}

constexpr Architecture kArchitectures[] = {{.name = "glm4",
                                            .rope_pairs = RopePairs::kInterleaved,
                                            .norm_eps = 1e-5f,
                                            .rope_base = rope_base,
                                            .norms = NormPlan::kAround,
                                            .set_usual = rotate_half,
                                            .keys = &kDecoderKeys}};

}  // namespace

std::span<const Architecture> glm_family() { return kArchitectures; }

}  // namespace rigcast::engine
