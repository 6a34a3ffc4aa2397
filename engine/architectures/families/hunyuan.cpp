// Hunyuan A13B: heads are normed behind RoPE. Hy3: before it, and experts are chosen by sigmoids.
// Both have a RoPE base that was scaled for long contexts.

#include "engine/architectures/families/families.hpp"

namespace rigcast::engine {

namespace {

float rope_base(const ModelSpec&) { return 11'158'840.0f; }

void choose_by_sigmoids(const ModelSpec&, Hyperparameters& h) {
  h.routing.sigmoid = true;
  h.routing.scale = 2.826f;
}

constexpr WeightName kNamesOfHy3[] = {{LayerWeight::kSelectionBias, "exp_probs_b"}};

constexpr Architecture kArchitectures[] = {{.name = "hunyuan-moe",
                                            .rope_pairs = RopePairs::kNeox,
                                            .norm_eps = 1e-5f,
                                            .rope_base = rope_base,
                                            .norms_rotated = true,
                                            .keys = &kDecoderKeys},
                                           {.name = "hy_v3",
                                            .rope_pairs = RopePairs::kNeox,
                                            .norm_eps = 1e-5f,
                                            .rope_base = rope_base,
                                            .reads_routing = true,
                                            .set_usual = choose_by_sigmoids,
                                            .keys = &kDecoderKeys,
                                            .names = kNamesOfHy3}};

}  // namespace

std::span<const Architecture> hunyuan_family() { return kArchitectures; }

}  // namespace rigcast::engine
