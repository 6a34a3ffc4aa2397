#pragma once
// Which GPUs' matrix units a backend uses, and since when.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/sourced.hpp"
#include "core/runtime/backend.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast {

/// GPUs whose matrix units a backend's builds use since a date.
struct MatrixUnits {
  Backend backend = Backend::kVulkan;
  std::vector<std::string> architectures;  // of these alone; empty: of all but `except`
  std::vector<std::string> except;
  Sourced<double> since;  // year of the first builds that do
};

/// The entries of `key` in a profile: of "matrix_units", or of "int8_matrix_units", those for
/// quantized weights alone. Errors land in the table's document.
std::vector<MatrixUnits> read_matrix_units(const TomlTable& root, const char* key);

/// True if an entry of the backend covers such GPUs in a build of `year`, or of today (no year), or
/// if the backend has no entry.
bool uses_matrix_units(const std::vector<MatrixUnits>& entries, Backend backend,
                       std::string_view architecture, std::optional<double> year);

}  // namespace rigcast
