#pragma once
// Files that the user names, read whole.

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include "core/base/error.hpp"

namespace rigcast {

/// Reads a file, or what comes through a pipe: "/dev/stdin", the shell's <(command), or a FIFO.
/// A pipe is read to its end, and waited for 2 s until somebody writes to it. All errors are bad
/// input but those of the disk: there is no such file; it is a directory, a device or a terminal;
/// it may not be read; it holds more than `max_bytes`; nobody writes to the pipe. Their texts name
/// the file.
Result<std::string> read_input(const std::filesystem::path& file, std::size_t max_bytes);

/// Why a file cannot be opened and mapped or decompressed: all errors of read_input, and a pipe.
std::optional<Error> check_regular_file(const std::filesystem::path& file);

}  // namespace rigcast
