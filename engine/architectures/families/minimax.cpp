// MiniMax M2: norms over all heads, of which half rotates; experts chosen by sigmoids.

#include "engine/architectures/families/families.hpp"

namespace rigcast::engine {

namespace {

float rope_base(const ModelSpec&) { return 5e6f; }

void set_minimax(const ModelSpec& spec, Hyperparameters& h) {
  h.rope_dims = int(spec.head_dim / 2);
  h.routing.sigmoid = true;
}

constexpr Architecture kArchitectures[] = {{.name = "minimax-m2",
                                            .rope_pairs = RopePairs::kNeox,
                                            .norm_eps = 1e-6f,
                                            .rope_base = rope_base,
                                            .set_usual = set_minimax,
                                            .keys = &kDecoderKeys}};

}  // namespace

std::span<const Architecture> minimax_family() { return kArchitectures; }

}  // namespace rigcast::engine
