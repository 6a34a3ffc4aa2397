// Ministral 3, Devstral 2 and others of "mistral3": YaRN, and queries that are scaled by position.

#include "engine/architectures/families/families.hpp"

namespace rigcast::engine {

namespace {

float rope_base(const ModelSpec&) { return 1e6f; }

// The step of the temperature is the context of the training, as YaRN's (read_hyperparameters).
constexpr ScalarKey kScalars[] = {
    {"attention.scale", &Hyperparameters::score_scale, 0},
    {"attention.temperature_scale", &Hyperparameters::temperature, 0},
};

constexpr Architecture kArchitectures[] = {{.name = "mistral3",
                                            .rope_pairs = RopePairs::kInterleaved,
                                            .norm_eps = 1e-5f,
                                            .rope_base = rope_base,
                                            .scales_queries = true,
                                            .keys = &kDecoderKeys,
                                            .scalars = kScalars}};

}  // namespace

std::span<const Architecture> mistral_family() { return kArchitectures; }

}  // namespace rigcast::engine
