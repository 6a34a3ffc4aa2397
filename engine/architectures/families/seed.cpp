// Seed-OSS: the norm of the FFN's input has the name that others give to the norm of attention's
// output.

#include "engine/architectures/families/families.hpp"

namespace rigcast::engine {

namespace {

float rope_base(const ModelSpec&) { return 1e7f; }

constexpr WeightName kNames[] = {{LayerWeight::kFfnNorm, "post_attention_norm.weight"}};

constexpr Architecture kArchitectures[] = {{.name = "seed_oss",
                                            .rope_pairs = RopePairs::kNeox,
                                            .norm_eps = 1e-6f,
                                            .rope_base = rope_base,
                                            .keys = &kDecoderKeys,
                                            .names = kNames}};

}  // namespace

std::span<const Architecture> seed_family() { return kArchitectures; }

}  // namespace rigcast::engine
