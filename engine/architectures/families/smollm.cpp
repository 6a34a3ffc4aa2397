// SmolLM3: every fourth layer has no RoPE.

#include "engine/architectures/families/families.hpp"

namespace rigcast::engine {

namespace {

float rope_base(const ModelSpec&) { return 5e6f; }

bool rotates(const ModelSpec&, int layer) { return (layer + 1) % 4 != 0; }

constexpr Architecture kArchitectures[] = {{.name = "smollm3",
                                            .rope_pairs = RopePairs::kInterleaved,
                                            .norm_eps = 1e-6f,
                                            .rope_base = rope_base,
                                            .rotates = rotates,
                                            .keys = &kDecoderKeys}};

}  // namespace

std::span<const Architecture> smollm_family() { return kArchitectures; }

}  // namespace rigcast::engine
