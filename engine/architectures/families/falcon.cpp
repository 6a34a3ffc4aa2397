// Falcon 7B and Falcon2 11B: attention and an FFN without a gate read one norm with a bias.

#include "engine/architectures/families/families.hpp"

namespace rigcast::engine {

namespace {

constexpr std::int64_t kContextOfFalcon2 = 8192;

float rope_base(const ModelSpec& spec) {
  return spec.context == kContextOfFalcon2 ? 5.00042e5f : 1e4f;
}

constexpr Architecture kArchitectures[] = {{.name = "falcon",
                                            .rope_pairs = RopePairs::kNeox,
                                            .norm_eps = 1e-5f,
                                            .rope_base = rope_base,
                                            .norms = NormPlan::kShared,
                                            .layer_norm = true,
                                            .activation = FfnActivation::kGelu,
                                            .keys = &kDecoderKeys}};

// Falcon-H1: attention and Mamba 2 read one norm, side by side, in every layer. Files have the
// model's multipliers in their weights.
float rope_base_of_h1(const ModelSpec&) { return 1e11f; }

constexpr std::string_view kMixerKeys[] = {"ssm.conv_kernel", "ssm.group_count", "ssm.inner_size",
                                           "ssm.state_size", "ssm.time_step_rank"};

constexpr WeightName kNames[] = {{LayerWeight::kFfnNorm, "ffn_norm"}};

constexpr Architecture kH1[] = {{.name = "falcon-h1",
                                 .rope_pairs = RopePairs::kNeox,
                                 .norm_eps = 1e-5f,
                                 .rope_base = rope_base_of_h1,
                                 .mixer = Mixer::kMamba,
                                 .mixes_beside = true,
                                 .normed_mixer = false,
                                 .keys = &kDecoderKeys,
                                 .own_keys = kMixerKeys,
                                 .names = kNames}};

}  // namespace

std::span<const Architecture> falcon_family() { return kArchitectures; }
std::span<const Architecture> falcon_h1_family() { return kH1; }

}  // namespace rigcast::engine
