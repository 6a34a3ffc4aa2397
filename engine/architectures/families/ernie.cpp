// ERNIE 4.5, dense.

#include "engine/architectures/families/families.hpp"

namespace rigcast::engine {

namespace {

float rope_base(const ModelSpec&) { return 5e5f; }

constexpr Architecture kArchitectures[] = {{.name = "ernie4_5",
                                            .rope_pairs = RopePairs::kInterleaved,
                                            .norm_eps = 1e-5f,
                                            .rope_base = rope_base,
                                            .keys = &kDecoderKeys}};

}  // namespace

std::span<const Architecture> ernie_family() { return kArchitectures; }

}  // namespace rigcast::engine
