// Granite: four scales. Granite 4.0 H: Mamba 2, and attention without RoPE in some layers.

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

constexpr Architecture kDense[] = {{.name = "granite",
                                    .rope_pairs = RopePairs::kInterleaved,
                                    .norm_eps = 1e-5f,
                                    .rope_base = rope_base,
                                    .set_usual = set_scales,
                                    .keys = &kDecoderKeys,
                                    .scalars = kScales,
                                    .own_neutral = kNeutral}};

float hybrid_rope_base(const ModelSpec&) { return 1e4f; }

bool rotates_nowhere(const ModelSpec&, int) { return false; }

constexpr std::string_view kMixerKeys[] = {"ssm.conv_kernel", "ssm.group_count", "ssm.inner_size",
                                           "ssm.state_size", "ssm.time_step_rank"};

// Without the key RoPE is on, as of "granite".
constexpr NeutralKey kHybridNeutral[] = {
    {.key = "rope.scaling.finetuned", .value = 0, .would = "turn queries and keys", .absent = 1}};

constexpr Architecture kHybrid[] = {{.name = "granitehybrid",
                                     .rope_pairs = RopePairs::kInterleaved,
                                     .norm_eps = 1e-5f,
                                     .rope_base = hybrid_rope_base,
                                     .mixer = Mixer::kMamba,
                                     .rotates = rotates_nowhere,
                                     .set_usual = set_scales,
                                     .keys = &kDecoderKeys,
                                     .scalars = kScales,
                                     .own_keys = kMixerKeys,
                                     .own_neutral = kHybridNeutral}};

}  // namespace

std::span<const Architecture> granite_family() { return kDense; }
std::span<const Architecture> granite_hybrid_family() { return kHybrid; }

}  // namespace rigcast::engine
