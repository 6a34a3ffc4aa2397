#pragma once
// Recorded arrivals, read from files of several formats. docs/serving.md describes them.

#include <filesystem>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "load/trace_builder.hpp"

namespace rigcast {

/// Reads CSV of our own, of Azure's traces or of BurstGPT, told apart by their columns, or JSON
/// lines of Mooncake. Lines that begin with # are comments. `file` is what errors name, with the
/// line and the column. Errors: another format; a line with fields too few or too many, with what
/// is no number, is negative or without tokens; time that runs backwards; a request that continues
/// one that is not before it; no request.
Result<Trace> parse_trace(std::string_view text, const std::string& file);
/// Errors: those of read_input(), of a file above 256 MiB, and of parse_trace().
Result<Trace> read_trace(const std::filesystem::path& file);

}  // namespace rigcast
