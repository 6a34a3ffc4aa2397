// Command R and Command R+ ("command-r"), Command R7B and Command A ("cohere2"): one norm that
// subtracts the mean, which attention and FFN both read.

#include "engine/architectures/families/families.hpp"

namespace rigcast::engine {

namespace {

// The publisher's config.json: Command R has 8e6 and, of 2024-08, 4e6, by its KV heads; Command R+,
// which norms heads, 7.5e7.
float rope_base(const ModelSpec& spec) {
  if (spec.qk_norm) return 7.5e7f;
  return spec.kv_heads == spec.heads ? 8e6f : 4e6f;
}
float rope_base_of_cohere2(const ModelSpec&) { return 5e4f; }

// Layers that see all tokens have no RoPE.
bool rotates(const ModelSpec& spec, int layer) {
  return !spec.window || !spec.sees_all_tokens(layer);
}

void set_command_r(const ModelSpec& spec, Hyperparameters& h) {
  h.logit_scale = spec.qk_norm ? 0.8333333f : 0.0625f;
}
void set_cohere2(const ModelSpec&, Hyperparameters& h) { h.logit_scale = 0.25f; }

constexpr ScalarKey kScalars[] = {{"logit_scale", &Hyperparameters::logit_scale, 1}};

constexpr Architecture kCommandR = {.name = "command-r",
                                    .rope_pairs = RopePairs::kInterleaved,
                                    .norm_eps = 1e-5f,
                                    .rope_base = rope_base,
                                    .norms = NormPlan::kShared,
                                    .layer_norm = true,
                                    .set_usual = set_command_r,
                                    .keys = &kDecoderKeys,
                                    .scalars = kScalars};

constexpr Architecture cohere2() {
  Architecture a = kCommandR;
  a.name = "cohere2";
  a.rope_base = rope_base_of_cohere2;
  a.rotates = rotates;
  a.set_usual = set_cohere2;
  return a;
}

constexpr Architecture kArchitectures[] = {kCommandR, cohere2()};

}  // namespace

std::span<const Architecture> cohere_family() { return kArchitectures; }

}  // namespace rigcast::engine
