#pragma once
// Texts that are kept compressed, as gzip does it.

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/base/error.hpp"

namespace rigcast {

/// Reads a gzip file, or a file that is not compressed as it is. Errors: those of
/// check_regular_file(); the file is damaged or truncated, or holds more than `max_bytes`.
Result<std::string> read_gzip(const std::filesystem::path& file, std::size_t max_bytes);

/// The bytes of a gzip file without name and time: equal texts give equal bytes.
std::string gzip(std::string_view text);

}  // namespace rigcast
