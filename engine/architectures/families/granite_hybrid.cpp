// Granite 4.0 H: Mamba 2, attention without RoPE in some layers, and the four scales of Granite.

#include "engine/architectures/families/families.hpp"

namespace rigcast::engine {

namespace {

float rope_base(const ModelSpec&) { return 1e4f; }

bool rotates(const ModelSpec&, int) { return false; }

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

constexpr std::string_view kKeys[] = {"ssm.conv_kernel", "ssm.group_count", "ssm.inner_size",
                                      "ssm.state_size", "ssm.time_step_rank"};

constexpr NeutralKey kNeutral[] = {{"rope.scaling.finetuned", 0, "turn queries and keys"}};

constexpr Architecture kArchitectures[] = {{.name = "granitehybrid",
                                            .rope_pairs = RopePairs::kInterleaved,
                                            .norm_eps = 1e-5f,
                                            .rope_base = rope_base,
                                            .mixer = Mixer::kMamba,
                                            .rotates = rotates,
                                            .set_usual = set_scales,
                                            .keys = &kDecoderKeys,
                                            .scalars = kScales,
                                            .own_keys = kKeys,
                                            .own_neutral = kNeutral}};

}  // namespace

std::span<const Architecture> granite_hybrid_family() { return kArchitectures; }

}  // namespace rigcast::engine
