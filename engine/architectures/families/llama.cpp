// Llama, and models of the same architecture: Mistral, Mixtral, CodeLlama.

#include "engine/architectures/families/families.hpp"

namespace rigcast::engine {

namespace {

// The values of the publishers' config.json, identified by what a spec holds. Llama 3 (by its
// vocabulary, or its RoPE factors) has 5e5. The first vocabulary of Llama and of Mistral 7B v0.1
// has 32000 tokens and goes with 1e4; later ones of Mistral, those of CodeLlama, and mixtures of
// experts go with 1e6.
float rope_base(const ModelSpec& spec) {
  constexpr std::int64_t kLlama2Vocabulary = 32'000;
  constexpr std::int64_t kLlama3Vocabulary = 128'256;
  if (spec.rope_freqs || spec.vocabulary == kLlama3Vocabulary) return 5e5f;
  return spec.vocabulary == kLlama2Vocabulary && !spec.moe ? 1e4f : 1e6f;
}

constexpr Architecture kArchitectures[] = {{.name = "llama",
                                            .rope_pairs = RopePairs::kInterleaved,
                                            .norm_eps = 1e-5f,
                                            .rope_base = rope_base,
                                            .keys = &kDecoderKeys}};

}  // namespace

std::span<const Architecture> llama_family() { return kArchitectures; }

}  // namespace rigcast::engine
