#pragma once
// A writer of GGUF files, tensor by tensor, with the memory of one chunk.

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

/// Like an OutputFile, the file is complete or does not exist. All errors are of kind kMachine (a
/// full disk, a folder that cannot be written to), except for a target that is no regular file.
/// After an error only the destructor may be called.
class GgufWriter {
 public:
  static Result<GgufWriter> create(const std::filesystem::path& target, GgufHeader header);

  /// The tensor whose data come next; nullptr after the last.
  const PlannedTensor* next() const;

  /// Writes all data of the next tensor.
  [[nodiscard]] std::optional<Error> write(std::span<const std::byte> data);

  /// Writes the next tensor in chunks of whole blocks: `fill` writes blocks first_block,
  /// first_block + 1, ... of the tensor into the span.
  using Fill = std::function<void(std::uint64_t first_block, std::span<std::byte> blocks)>;
  [[nodiscard]] std::optional<Error> write_chunks(const Fill& fill);

  /// Leaves the next tensor's data as a hole of zeros.
  [[nodiscard]] std::optional<Error> skip();

  /// Call after the last tensor: syncs the file to the disk and gives it its final name. Throws
  /// Interrupted.
  [[nodiscard]] std::optional<Error> finish(const StopFlag& stop = {});

 private:
  GgufWriter(OutputFile out, GgufHeader header);
  std::optional<Error> put(std::span<const std::byte> bytes);
  std::optional<Error> with_hint(std::optional<Error> error) const;
  std::optional<Error> end_tensor(const PlannedTensor& tensor);

  OutputFile out_;
  GgufHeader header_;
  std::size_t written_ = 0;  // number of tensors written
};

}  // namespace rigcast::engine
