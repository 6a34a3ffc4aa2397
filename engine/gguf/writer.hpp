#pragma once
// Writes a GGUF file, tensor after tensor, in the memory of one chunk.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "core/base/error.hpp"
#include "core/files/output_file.hpp"
#include "engine/gguf/header.hpp"

namespace rigcast::engine {

/// As an OutputFile: whole, or not there. Every Error is of the machine (a full disk, a folder that
/// cannot be written to) but for a target that is no regular file. After one, nothing but the
/// destructor may be called.
class GgufWriter {
 public:
  static Result<GgufWriter> create(const std::filesystem::path& target, GgufHeader header);

  /// The tensor whose data come next; nullptr after the last.
  const PlannedTensor* next() const;

  /// All data of the next tensor.
  [[nodiscard]] std::optional<Error> write(std::span<const std::byte> data);

  /// The same in chunks of whole blocks: `fill` writes blocks first_block, first_block + 1, ... of
  /// the tensor over the span.
  using Fill = std::function<void(std::uint64_t first_block, std::span<std::byte> blocks)>;
  [[nodiscard]] std::optional<Error> write_chunks(const Fill& fill);

  /// After the last tensor: onto the disk and under its own name. Throws Interrupted.
  [[nodiscard]] std::optional<Error> finish(const StopFlag& stop = {});

 private:
  GgufWriter(OutputFile out, GgufHeader header);
  std::optional<Error> put(std::span<const std::byte> bytes);
  std::optional<Error> with_hint(std::optional<Error> error) const;
  std::optional<Error> end_tensor(const PlannedTensor& tensor);

  OutputFile out_;
  GgufHeader header_;
  std::size_t written_ = 0;  // tensors
};

}  // namespace rigcast::engine
