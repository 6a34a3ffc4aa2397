// Llama, and models of the same architecture: Mistral, Mixtral, CodeLlama. Llama 4: chunks of the
// context, layers without RoPE that see all of it, and one expert, whose input is weighted.

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

float rope_base_of_llama4(const ModelSpec&) { return 5e5f; }

bool rotates_in_chunks(const ModelSpec& spec, int layer) { return !spec.sees_all_tokens(layer); }

// Scout does, Maverick does not: files say it by nothing but their experts.
bool norms_turned_heads(const ModelSpec& spec) {
  constexpr int kExpertsOfMaverick = 128;
  return !spec.moe || spec.moe->experts != kExpertsOfMaverick;
}

// The publisher's config.json; files have none of these numbers.
void set_llama4(const ModelSpec&, Hyperparameters& h) {
  h.temperature = 0.1f;
  h.temperature_tokens = 8192;
  h.temperature_offset = 1;
  h.routing.sigmoid = h.routing.scales_input = true;
  h.routing.normalised = false;
}

constexpr Architecture kArchitectures[] = {{.name = "llama",
                                            .rope_pairs = RopePairs::kInterleaved,
                                            .norm_eps = 1e-5f,
                                            .rope_base = rope_base,
                                            .keys = &kDecoderKeys},
                                           {.name = "llama4",
                                            .rope_pairs = RopePairs::kInterleaved,
                                            .norm_eps = 1e-5f,
                                            .rope_base = rope_base_of_llama4,
                                            .rotates = rotates_in_chunks,
                                            .scales_unturned = true,
                                            .norms_turned = norms_turned_heads,
                                            .set_usual = set_llama4,
                                            .keys = &kDecoderKeys}};

}  // namespace

std::span<const Architecture> llama_family() { return kArchitectures; }

}  // namespace rigcast::engine
