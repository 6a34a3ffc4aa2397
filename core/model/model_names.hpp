#pragma once
// Names of models and quant mixes, as people and programs write them.

#include <optional>
#include <string>
#include <vector>

#include "core/model/quant_mix.hpp"

namespace rigcast {

/// What a name says: an id or address of Hugging Face, an Ollama tag, the name of a GGUF file.
/// "bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q4_K_M", "llama3.1:8b-instruct-q4_K_M".
struct StatedModel {
  /// The name as it stands, then ever simpler ones: without publisher, annotations, mix, and words
  /// that leave the shape as it is ("Instruct"). A size is never left out.
  std::vector<std::string> names;
  std::string quant;  // as written: "Q4_K_M", "UD-Q4_K_XL", "GPTQ-Int4"; empty: not stated
};
StatedModel stated_model(const std::string& name);

/// The mix that a label means exactly: "Q4_K - Medium", "MXFP4 MoE", "q4_0". nullopt: rigcast has
/// no rule for it.
std::optional<QuantMix> mix_of_label(const std::string& label);

/// The recipe of a server that a label means: INT4 for "GPTQ-Int4" and "AWQ-4bit", FP8 for
/// "FP8-dynamic", BF16 for "bfloat16". nullopt: none is known.
std::optional<QuantMix> served_mix_of_label(const std::string& label);

/// The mix of as many bits a weight as a format of other programs: Q4_K_M for "AWQ" and "MLX-4bit",
/// Q8_0 for "FP8". nullopt: the label is none of these.
std::optional<QuantMix> mix_like_format(const std::string& label);

/// "IQ2_XXS - 2.0625 bpw".
std::optional<double> bits_per_weight_of_label(const std::string& label);

}  // namespace rigcast
