#pragma once
// Tensor types by their ids in GGUF files. There are more than forecasts and the engine know, so
// that every file can be listed. Block sizes: ggml's public block definitions.

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
  std::optional<QuantFormat> format;  // none: neither forecasts nor the engine know it
};

/// Finds a type; nullptr if there is none with this id.
const TensorType* find_tensor_type(std::uint32_t id);

/// The name of a type that was removed from GGUF, "Q4_2"; empty if this id never was one.
std::string_view removed_tensor_type(std::uint32_t id);

}  // namespace rigcast::engine
