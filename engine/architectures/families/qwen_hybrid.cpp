// Qwen3.5, 3.6 and 3.8, dense and with experts, and Qwen3-Next: a gated delta net in three of four
// layers; in the others attention with a gate, of whose heads a fourth turns.

#include "engine/architectures/families/families.hpp"

namespace rigcast::engine {

namespace {

float rope_base(const ModelSpec&) { return 1e7f; }

void turn_a_fourth(const ModelSpec& spec, Hyperparameters& h) {
  h.rope_dims = int(spec.head_dim / 4);
}

constexpr std::string_view kKeys[] = {
    "full_attention_interval", "rope.dimension_sections", "ssm.conv_kernel",    "ssm.group_count",
    "ssm.inner_size",          "ssm.state_size",          "ssm.time_step_rank",
};

constexpr WeightName kNames[] = {{LayerWeight::kMixerIn, "attn_qkv.weight"},
                                 {LayerWeight::kFfnNorm, "post_attention_norm.weight"}};

constexpr Architecture hybrid(std::string_view name) {
  return {.name = name,
          .rope_pairs = RopePairs::kNeox,
          .norm_eps = 1e-6f,
          .rope_base = rope_base,
          .mixer = Mixer::kDeltaNet,
          .set_usual = turn_a_fourth,
          .keys = &kDecoderKeys,
          .own_keys = kKeys,
          .names = kNames};
}

// Its gates of states are in one matrix. Files of before 2026 have what is convolved and the gates
// of heads in one, too, under the usual name (bind_model).
constexpr WeightName kNextNames[] = {{LayerWeight::kMixerIn, "attn_qkv.weight"},
                                     {LayerWeight::kMixerBeta, "ssm_ba.weight"},
                                     {LayerWeight::kFfnNorm, "post_attention_norm.weight"}};

constexpr Architecture next() {
  Architecture a = hybrid("qwen3next");
  a.grouped_heads = true;
  a.names = kNextNames;
  return a;
}

constexpr Architecture kArchitectures[] = {hybrid("qwen35"), hybrid("qwen35moe"), next()};

}  // namespace

std::span<const Architecture> qwen_hybrid_family() { return kArchitectures; }

}  // namespace rigcast::engine
