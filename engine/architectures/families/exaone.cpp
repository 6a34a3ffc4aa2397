// EXAONE 4: norms behind attention and FFN. Where some layers have a window, the others have no
// RoPE. K-EXAONE: norms before them, and experts.

#include "engine/architectures/families/families.hpp"

namespace rigcast::engine {

namespace {

float rope_base(const ModelSpec&) { return 1e6f; }

bool rotates(const ModelSpec& spec, int layer) {
  return !spec.window || !spec.sees_all_tokens(layer);
}

void choose_by_sigmoids(const ModelSpec&, Hyperparameters& h) {
  h.routing.sigmoid = true;
  h.routing.scale = 2.5f;
}

constexpr Architecture kArchitectures[] = {{.name = "exaone4",
                                            .rope_pairs = RopePairs::kNeox,
                                            .norm_eps = 1e-5f,
                                            .rope_base = rope_base,
                                            .norms = NormPlan::kBehind,
                                            .rotates = rotates,
                                            .keys = &kDecoderKeys},
                                           {.name = "exaone-moe",
                                            .rope_pairs = RopePairs::kNeox,
                                            .norm_eps = 1e-5f,
                                            .rope_base = rope_base,
                                            .rotates = rotates,
                                            .reads_routing = true,
                                            .set_usual = choose_by_sigmoids,
                                            .keys = &kDecoderKeys}};

}  // namespace

std::span<const Architecture> exaone_family() { return kArchitectures; }

}  // namespace rigcast::engine
