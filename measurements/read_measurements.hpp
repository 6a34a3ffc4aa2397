#pragma once
// Files of measurements: our own CSV (runtimes/measurements/README.md) and what llama-bench prints.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "measurements/measurement.hpp"

namespace rigcast {

/// The form is told from the content. Columns that are not known are ignored; `skipped` gets a line
/// for every run that is no figure of one kind. Errors: those of read_input(), of a file above 100
/// MiB; a column missing that every row needs; a text that is no number.
Result<std::vector<Measurement>> read_measurements(const std::filesystem::path& file,
                                                   std::vector<std::string>* skipped = nullptr);

/// As read_measurements(), from a text; errors name `file`.
Result<std::vector<Measurement>> parse_measurements(std::string_view text, const std::string& file,
                                                    std::vector<std::string>* skipped = nullptr);

}  // namespace rigcast
