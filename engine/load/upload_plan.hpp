#pragma once
// Divides and joins tensors into reads of even size, on their way to a GPU.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "engine/gguf/file.hpp"
#include "engine/model/matrix.hpp"

namespace rigcast::engine {

/// A tensor's bytes, in memory or in a mapped file.
struct HostTensor {
  std::string_view name;  // for errors
  const std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t row_bytes = 0;  // never divided; a divisor of `bytes`
};
HostTensor host_tensor(std::string_view name, const Matrix& matrix);
HostTensor host_tensor(const TensorInfo& tensor);

/// Whole rows of one tensor.
struct UploadPiece {
  std::size_t tensor = 0;  // index into the given tensors
  std::uint64_t first_byte = 0;
  std::uint64_t bytes = 0;
  std::uint64_t at = 0;  // from the first byte of its read
};

/// One read: a range of a file, or pieces from memory side by side.
struct UploadRead {
  static constexpr int kMemory = -1;

  int part = kMemory;        // of the file
  std::uint64_t offset = 0;  // offset in that part
  std::uint64_t bytes = 0;   // at most what was asked for
  std::vector<UploadPiece> pieces;
};

/// Plans reads that cover every byte of every tensor once, in the order of the file. Tensors inside
/// a part of `file` (nullptr: none) that has a path are read from there. Errors: a row longer than
/// `max_bytes`.
Result<std::vector<UploadRead>> plan_upload(std::span<const HostTensor> tensors,
                                            const GgufFile* file, std::uint64_t max_bytes);

}  // namespace rigcast::engine
