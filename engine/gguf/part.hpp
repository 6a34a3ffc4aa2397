#pragma once
// One GGUF file: what its bytes say, checked. A model may be split over several.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "engine/gguf/metadata.hpp"
#include "engine/gguf/tensor_type.hpp"

namespace rigcast::engine {

struct TensorInfo {
  std::string_view name;
  const TensorType* type = nullptr;
  std::array<std::uint64_t, 4> shape{1, 1, 1, 1};  // shape[0] is the row, contiguous
  int dimensions = 1;
  std::uint64_t bytes = 0;
  const std::byte* data = nullptr;
  std::uint64_t offset = 0;  // of the data, in its file

  std::uint64_t elements() const { return shape[0] * shape[1] * shape[2] * shape[3]; }
};

/// Views into the bytes that were read: whoever gave them keeps them alive.
struct GgufPart {
  std::uint32_t version = 0;
  std::uint32_t alignment = 32;  // of every tensor's data
  Metadata metadata;
  std::vector<TensorInfo> tensors;  // in the file's order
  std::uint64_t data_begin = 0;     // where tensor data may begin
  std::uint64_t bytes = 0;          // of the whole file
};

/// Reads the header of a file of version 2 or 3; of the data no byte. Errors name `file`, what is
/// wrong and at which byte: no GGUF, another version or byte order, cut off; a value or tensor of
/// an unknown type; a key or tensor named twice; shapes that overflow or end within a block; data
/// that are misaligned, overlap or end past the file.
Result<GgufPart> read_part(std::span<const std::byte> bytes, const std::string& file);

}  // namespace rigcast::engine
