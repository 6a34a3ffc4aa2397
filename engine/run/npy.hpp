#pragma once
// NumPy's file of one array, written row after row.

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include "core/base/error.hpp"
#include "core/files/output_file.hpp"

namespace rigcast::engine {

/// float32, [rows][columns]; as an OutputFile whole, or not there.
class NpyWriter {
 public:
  static Result<NpyWriter> create(const std::filesystem::path& target, std::size_t rows,
                                  std::size_t columns);

  [[nodiscard]] std::optional<Error> write(std::span<const float> values);
  [[nodiscard]] std::optional<Error> finish() { return out_.finish(); }

 private:
  explicit NpyWriter(OutputFile out) : out_(std::move(out)) {}

  OutputFile out_;
};

}  // namespace rigcast::engine
