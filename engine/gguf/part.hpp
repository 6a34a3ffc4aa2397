#pragma once
// One parsed and checked GGUF file. A model may be split over several.

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
  std::uint64_t offset = 0;  // offset of the data in its file

  std::uint64_t elements() const { return shape[0] * shape[1] * shape[2] * shape[3]; }
};

/// The contents, as views into the bytes, which the caller keeps alive.
struct GgufPart {
  std::uint32_t version = 0;
  std::uint32_t alignment = 32;  // alignment of every tensor's data, bytes
  Metadata metadata;
  std::vector<TensorInfo> tensors;  // in the file's order
  std::uint64_t data_begin = 0;     // offset at which tensor data may begin
  std::uint64_t bytes = 0;          // bytes of the whole file
};

/// Reads the header of a file of version 2 or 3; no data are read. Errors name `file`, what is
/// wrong and at which byte: not a GGUF file, another version or byte order, truncated; a value or
/// tensor of an unknown type; a duplicate key or tensor; shapes that overflow or end within a
/// block; data that are misaligned, overlap or end beyond the file.
Result<GgufPart> read_part(std::span<const std::byte> bytes, const std::string& file);

}  // namespace rigcast::engine
