// Nemotron-H and Nemotron 3 Nano: a layer is Mamba 2, attention without RoPE, or an FFN or experts
// without a gate, each behind a norm of the same name.

#include "engine/architectures/families/families.hpp"

namespace rigcast::engine {

namespace {

float rope_base(const ModelSpec&) { return 1e4f; }

bool rotates_nowhere(const ModelSpec&, int) { return false; }

// That of Nemotron 3 Nano; the others' files say theirs.
void set_routing(const ModelSpec&, Hyperparameters& h) {
  h.routing.sigmoid = true;
  h.routing.scale = 2.5f;
}

constexpr std::string_view kMixerKeys[] = {"ssm.conv_kernel", "ssm.group_count", "ssm.inner_size",
                                           "ssm.state_size", "ssm.time_step_rank"};

constexpr WeightName kNames[] = {{LayerWeight::kFfnNorm, "attn_norm.weight"}};

constexpr Architecture kDense = {.name = "nemotron_h",
                                 .rope_pairs = RopePairs::kNeox,
                                 .norm_eps = 1e-5f,
                                 .rope_base = rope_base,
                                 .activation = FfnActivation::kSquaredRelu,
                                 .mixer = Mixer::kMamba,
                                 .single_blocks = true,
                                 .rotates = rotates_nowhere,
                                 .keys = &kDecoderKeys,
                                 .own_keys = kMixerKeys,
                                 .names = kNames};

constexpr Architecture mixture() {
  Architecture a = kDense;
  a.name = "nemotron_h_moe";
  a.reads_routing = true;
  a.set_usual = set_routing;
  return a;
}

constexpr Architecture kArchitectures[] = {kDense, mixture()};

}  // namespace

std::span<const Architecture> nemotron_family() { return kArchitectures; }

}  // namespace rigcast::engine
