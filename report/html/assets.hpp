#pragma once
// The files of web/ that pages hold, within the program.

#include <string_view>

namespace rigcast {

struct Asset {
  std::string_view name;    // "charts/curve.js"
  std::string_view text;    // without comments and indents
  std::string_view sha256;  // of the text, 64 hexadecimal digits
};

/// Ends the program if there is none of this name: pages name those that exist.
const Asset& asset(std::string_view name);

}  // namespace rigcast
