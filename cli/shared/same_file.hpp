#pragma once

#include <string>

namespace rigcast::cli {

/// Both paths lead to one file, or would if it were there.
bool is_same_file(const std::string& a, const std::string& b);

}  // namespace rigcast::cli
