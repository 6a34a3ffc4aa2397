// OLMo 2 and 3, with norms behind attention and FFN, and OLMoE.

#include "engine/architectures/families/families.hpp"

namespace rigcast::engine {

namespace {

float rope_base(const ModelSpec&) { return 5e5f; }
float rope_base_of_olmoe(const ModelSpec&) { return 1e4f; }

// Weights of the chosen experts are their probabilities among all.
void set_olmoe(const ModelSpec&, Hyperparameters& h) { h.routing.normalised = false; }

constexpr Architecture kArchitectures[] = {{.name = "olmo2",
                                            .rope_pairs = RopePairs::kNeox,
                                            .norm_eps = 1e-6f,
                                            .rope_base = rope_base,
                                            .norms = NormPlan::kBehind,
                                            .local_rope = LocalRope::kUnscaled,
                                            .keys = &kDecoderKeys},
                                           {.name = "olmoe",
                                            .rope_pairs = RopePairs::kNeox,
                                            .norm_eps = 1e-5f,
                                            .rope_base = rope_base_of_olmoe,
                                            .set_usual = set_olmoe,
                                            .keys = &kDecoderKeys}};

}  // namespace

std::span<const Architecture> olmo_family() { return kArchitectures; }

}  // namespace rigcast::engine
