// dots.llm1: experts chosen by sigmoids.

#include "engine/architectures/families/families.hpp"

namespace rigcast::engine {

namespace {

float rope_base(const ModelSpec&) { return 1e7f; }

void choose_by_sigmoids(const ModelSpec&, Hyperparameters& h) {
  h.routing.sigmoid = true;
  h.routing.scale = 2.5f;
}

constexpr Architecture kArchitectures[] = {{.name = "dots1",
                                            .rope_pairs = RopePairs::kNeox,
                                            .norm_eps = 1e-5f,
                                            .rope_base = rope_base,
                                            .reads_routing = true,
                                            .set_usual = choose_by_sigmoids,
                                            .keys = &kDecoderKeys}};

}  // namespace

std::span<const Architecture> dots_family() { return kArchitectures; }

}  // namespace rigcast::engine
