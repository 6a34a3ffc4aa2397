#pragma once
// Files by which Linux is told and asked.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"

namespace rigcast::validation {

/// kMachine, with what errno says.
Error failed_at(const std::filesystem::path& at, const std::string& what, std::string hint);

/// False, with errno, if the file is not there or does not take the text.
bool write_text(const std::filesystem::path& file, const std::string& text);

/// What processes left behind that were killed: entries of `folder` named `prefix` and the number
/// of a process that is no more.
std::vector<std::filesystem::path> left_behind(const std::filesystem::path& folder,
                                               std::string_view prefix);

}  // namespace rigcast::validation
