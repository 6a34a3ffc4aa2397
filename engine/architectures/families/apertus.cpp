// Apertus: norms of heads, and an FFN without a gate whose activation has numbers of its own in
// every layer.

#include "engine/architectures/families/families.hpp"

namespace rigcast::engine {

namespace {

float rope_base(const ModelSpec&) { return 1.2e7f; }

void set_activation(const ModelSpec& spec, Hyperparameters& h) {
  h.xielu.assign(std::size_t(spec.layers), xielu_of(0.8, 0.8, 0.5, -1e-6));
}

constexpr Architecture kArchitectures[] = {{.name = "apertus",
                                            .rope_pairs = RopePairs::kNeox,
                                            .norm_eps = 1e-5f,
                                            .rope_base = rope_base,
                                            .activation = FfnActivation::kXielu,
                                            .set_usual = set_activation,
                                            .keys = &kDecoderKeys}};

}  // namespace

std::span<const Architecture> apertus_family() { return kArchitectures; }

}  // namespace rigcast::engine
