// Falcon 7B and Falcon2 11B: attention and an FFN without a gate read one norm with a bias.

#include "engine/architectures/families/families.hpp"

namespace rigcast::engine {

namespace {

constexpr std::int64_t kContextOfFalcon2 = 8192;

float rope_base(const ModelSpec& spec) {
  return spec.context == kContextOfFalcon2 ? 5.00042e5f : 1e4f;
}

constexpr Architecture kArchitectures[] = {{.name = "falcon",
                                            .rope_pairs = RopePairs::kNeox,
                                            .norm_eps = 1e-5f,
                                            .rope_base = rope_base,
                                            .norms = NormPlan::kShared,
                                            .layer_norm = true,
                                            .activation = FfnActivation::kGelu,
                                            .keys = &kDecoderKeys}};

}  // namespace

std::span<const Architecture> falcon_family() { return kArchitectures; }

}  // namespace rigcast::engine
