// Llama, and what has its shape: Mistral, Mixtral, CodeLlama.

#include "engine/architectures/architecture.hpp"
#include "engine/architectures/pre_norm_decoder.hpp"

namespace rigcast::engine {

namespace {

// What the publishers' config.json have, told apart by what a spec holds: Llama 3 (its vocabulary,
// or its rope factors) has 5e5; the first vocabulary of Llama and of Mistral 7B v0.1 is of 32000
// and goes with 1e4, the later ones of Mistral, those of CodeLlama and mixtures of experts with
// 1e6.
float rope_base(const ModelSpec& spec) {
  constexpr std::int64_t kLlama2Vocabulary = 32'000;
  constexpr std::int64_t kLlama3Vocabulary = 128'256;
  if (spec.rope_freqs || spec.vocabulary == kLlama3Vocabulary) return 5e5f;
  return spec.vocabulary == kLlama2Vocabulary && !spec.moe ? 1e4f : 1e6f;
}

}  // namespace

constinit const Architecture kLlama{.name = "llama",
                                    .rope_pairs = RopePairs::kNeighbours,
                                    .norm_eps = 1e-5f,
                                    .rope_base = rope_base,
                                    .layer_ops = pre_norm_layer,
                                    .unexecuted_trait = not_pre_norm_decoder,
                                    .keys = &kDecoderKeys};

}  // namespace rigcast::engine
