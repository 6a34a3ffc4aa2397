#include "core/text/toml_key_depth.hpp"

#include <algorithm>

namespace rigcast {
namespace {

// Past the string that begins at `i`; the end of the line, or of the text, closes an open one.
std::size_t skip_string(std::string_view text, std::size_t i) {
  const char quote = text[i];
  const std::size_t after = std::min(text.find_first_not_of(quote, i), text.size());
  if (after - i == 2 || after - i >= 6) return after;  // empty
  const bool multi_line = after - i >= 3;
  for (i = multi_line ? i + 3 : i + 1; i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
      continue;
    }
    if (!multi_line && (text[i] == quote || text[i] == '\n')) return i + 1;
    if (!multi_line || text[i] != quote) continue;
    // Up to two more quotes belong to the string.
    std::size_t run = 1;
    while (run < 5 && i + run < text.size() && text[i + run] == quote) ++run;
    if (run >= 3) return i + run;
  }
  return text.size();
}

}  // namespace

std::optional<TextPosition> overlong_key(std::string_view text) {
  TextPosition at;
  std::ptrdiff_t dots = 0;
  std::size_t line_start = 0;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      const std::size_t after = skip_string(text, i);
      for (; i < after && i < text.size(); ++i) {
        if (text[i] != '\n') continue;
        ++at.line;
        line_start = i + 1;
        dots = 0;
      }
      continue;
    }
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
      continue;
    }
    if (c == '\n') {
      ++at.line;
      line_start = i + 1;
    }
    if (c == '.') {
      if (++dots > kMaxKeyDots) {
        at.column = int(i - line_start) + 1;
        return at;
      }
    } else if (c == '\n' || c == '=' || c == ',' || c == '{' || c == '[') {
      dots = 0;
    }
    ++i;
  }
  return std::nullopt;
}

}  // namespace rigcast
