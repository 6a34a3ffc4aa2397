// Ling and Ring 2.0: half of a head rotates; experts of the best groups, chosen by sigmoids.

#include "engine/architectures/families/families.hpp"

namespace rigcast::engine {

namespace {

float rope_base(const ModelSpec&) { return 6e5f; }

void set_bailing(const ModelSpec& spec, Hyperparameters& h) {
  h.rope_dims = int(spec.head_dim / 2);
  h.routing.sigmoid = true;
  h.routing.scale = 2.5f;
}

constexpr Architecture kArchitectures[] = {{.name = "bailingmoe2",
                                            .rope_pairs = RopePairs::kNeox,
                                            .norm_eps = 1e-6f,
                                            .rope_base = rope_base,
                                            .reads_routing = true,
                                            .set_usual = set_bailing,
                                            .keys = &kDecoderKeys}};

}  // namespace

std::span<const Architecture> bailing_family() { return kArchitectures; }

}  // namespace rigcast::engine
