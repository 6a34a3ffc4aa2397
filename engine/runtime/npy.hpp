#pragma once
// NumPy's file of one array, written row after row.

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>

#include "core/error.hpp"

namespace rigcast::engine {

/// float32, [rows][columns]. The file has a temporary name until finish(); a writer that does not
/// get there removes it. Errors are of the machine.
class NpyWriter {
 public:
  static Result<NpyWriter> create(const std::filesystem::path& target, std::size_t rows,
                                  std::size_t columns);
  NpyWriter(NpyWriter&&) = default;
  ~NpyWriter();

  std::optional<Error> write(std::span<const float> values);
  std::optional<Error> finish();

 private:
  explicit NpyWriter(const std::filesystem::path& target);
  std::optional<Error> failed() const;

  std::filesystem::path target_, temporary_;
  std::ofstream out_;
};

}  // namespace rigcast::engine
