#pragma once
// The families of architectures: a file of this folder and a line here each.

#include <span>

#include "engine/architectures/traits/architecture_traits.hpp"

namespace rigcast::engine {

using Family = std::span<const Architecture> (*)();

std::span<const Architecture> apertus_family();
std::span<const Architecture> bailing_family();
std::span<const Architecture> cohere_family();
std::span<const Architecture> deepseek_family();
std::span<const Architecture> dots_family();
std::span<const Architecture> ernie_family();
std::span<const Architecture> exaone_family();
std::span<const Architecture> falcon_family();
std::span<const Architecture> falcon_h1_family();
std::span<const Architecture> gemma_family();
std::span<const Architecture> glm_family();
std::span<const Architecture> gpt_oss_family();
std::span<const Architecture> granite_family();
std::span<const Architecture> granite_hybrid_family();
std::span<const Architecture> hunyuan_family();
std::span<const Architecture> lfm_family();
std::span<const Architecture> llama_family();
std::span<const Architecture> minimax_family();
std::span<const Architecture> mistral_family();
std::span<const Architecture> nemotron_family();
std::span<const Architecture> olmo_family();
std::span<const Architecture> phi_family();
std::span<const Architecture> qwen_family();
std::span<const Architecture> qwen_hybrid_family();
std::span<const Architecture> seed_family();
std::span<const Architecture> smollm_family();

inline constexpr Family kFamilies[] = {
    llama_family,   qwen_family,    ernie_family,       exaone_family,   gemma_family,
    glm_family,     granite_family, mistral_family,     olmo_family,     phi_family,
    seed_family,    smollm_family,  gpt_oss_family,     bailing_family,  dots_family,
    hunyuan_family, minimax_family, qwen_hybrid_family, lfm_family,      granite_hybrid_family,
    cohere_family,  falcon_family,  apertus_family,     deepseek_family, falcon_h1_family,
    nemotron_family};

}  // namespace rigcast::engine
