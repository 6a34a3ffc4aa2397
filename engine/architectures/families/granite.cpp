// Granite, dense: four scales.

#include "engine/architectures/families/families.hpp"

namespace rigcast::engine {

namespace {

float rope_base(const ModelSpec&) { return 1e7f; }

// Those of Granite 3 and 4.
void set_scales(const ModelSpec& spec, Hyperparameters& h) {
  h.embedding_scale = 12;
  h.residual_scale = 0.22f;
  h.score_scale = 1 / float(spec.head_dim);
  h.logit_scale = 1.0f / 8;
}

constexpr ScalarKey kScales[] = {
    {"embedding_scale", &Hyperparameters::embedding_scale, 1},
    {"residual_scale", &Hyperparameters::residual_scale, 1},
    {"attention.scale", &Hyperparameters::score_scale, 0},
    {"logit_scale", &Hyperparameters::logit_scale, 1, true},
};

// Files of this architecture switch RoPE off by it.
constexpr NeutralKey kNeutral[] = {{"rope.scaling.finetuned", 1, "leave RoPE out"}};

constexpr Architecture kArchitectures[] = {{.name = "granite",
                                            .rope_pairs = RopePairs::kInterleaved,
                                            .norm_eps = 1e-5f,
                                            .rope_base = rope_base,
                                            .set_usual = set_scales,
                                            .keys = &kDecoderKeys,
                                            .scalars = kScales,
                                            .own_neutral = kNeutral}};

}  // namespace

std::span<const Architecture> granite_family() { return kArchitectures; }

}  // namespace rigcast::engine
