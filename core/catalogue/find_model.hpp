#pragma once
// Models as people name them: by the catalogue, by Hugging Face or Ollama, or by a file.

#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/catalogue/catalogue.hpp"
#include "core/model/model_spec.hpp"

namespace rigcast {

/// Whose formats a name's words mean: "AWQ" is none of GGUF's.
enum class WeightFormats { kGguf, kServed };

struct FoundModel {
  ModelSpec spec;
  std::string quant;  // the mix that the name states; empty: none
  std::vector<std::string> warnings;
};

/// `name` is one of
///   a name or alias of the catalogue
///   an id or address of Hugging Face, "unsloth/Qwen3-8B-GGUF:Q4_K_M", or a tag of Ollama
///   a GGUF file's name; the file is not read, of which there is a warning
///   a spec (.toml), or a config.json of Hugging Face, or the folder that holds one
/// A model of another size or shape is never taken for it. `quant` is what was given beside the
/// name (empty: nothing), and wins: there is a warning if the name states another.
Result<FoundModel> find_model(const Catalogue& catalogue, const std::string& name,
                              const std::string& quant = {},
                              WeightFormats formats = WeightFormats::kGguf);

/// The name states a mix or another program's format: "Qwen3-8B-Q4_K_M.gguf", "Qwen3-8B-AWQ".
bool states_quant(const std::string& name);

}  // namespace rigcast
