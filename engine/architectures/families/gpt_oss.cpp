// gpt-oss: attention with sinks, every second layer in a window; experts with biases and a clamped
// SwiGLU. The norm of the experts' input has the name that others give to that of attention's
// output.

#include "engine/architectures/families/families.hpp"

namespace rigcast::engine {

namespace {

float rope_base(const ModelSpec&) { return 1.5e5f; }

constexpr WeightName kNames[] = {{LayerWeight::kFfnNorm, "post_attention_norm.weight"}};

constexpr Architecture kArchitectures[] = {{.name = "gpt-oss",
                                            .rope_pairs = RopePairs::kNeox,
                                            .norm_eps = 1e-5f,
                                            .rope_base = rope_base,
                                            .activation = FfnActivation::kClampedSwiglu,
                                            .keys = &kDecoderKeys,
                                            .names = kNames}};

}  // namespace

std::span<const Architecture> gpt_oss_family() { return kArchitectures; }

}  // namespace rigcast::engine
