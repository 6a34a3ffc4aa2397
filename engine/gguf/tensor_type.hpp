#pragma once
// Types of tensors by the ids that GGUF files hold. More than those that are computed with: a file
// is listed whatever its formats. Block sizes: ggml's public block definitions.

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/model/quant_format.hpp"

namespace rigcast::engine {

struct TensorType {
  std::uint32_t id = 0;
  std::string_view name;             // as ggml prints it, "IQ2_XXS"
  std::uint32_t block_elements = 1;  // weights in one block
  std::uint32_t block_bytes = 1;
  std::optional<QuantFormat> format;  // nullopt: can be listed, not computed with
};

/// nullptr if files have no such type.
const TensorType* find_tensor_type(std::uint32_t id);

/// The name of a type that files had once, "Q4_2"; empty if there never was one of that id.
std::string_view removed_tensor_type(std::uint32_t id);

}  // namespace rigcast::engine
