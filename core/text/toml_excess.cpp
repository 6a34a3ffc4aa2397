#include "core/text/toml_excess.hpp"

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

std::optional<TomlExcess> find_toml_excess(std::string_view text) {
  TextPosition at;
  std::ptrdiff_t dots = 0, headers = 0, depth = 0;  // of lists and inline tables
  std::size_t line_start = 0;
  bool blank = true, header = false;  // so far, this line
  const auto excess = [&](std::size_t i, const char* message) {
    at.column = int(i - line_start) + 1;
    return TomlExcess{at, message};
  };
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      const std::size_t after = skip_string(text, i);
      for (blank = false; i < after && i < text.size(); ++i) {
        if (text[i] != '\n') continue;
        ++at.line;
        line_start = i + 1;
        dots = 0;
        blank = true;
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
    if (c == '\n') header = false;
    if (c == '[' && blank && depth == 0) {
      header = true;
      if (++headers > kMaxTableHeaders) return excess(i, "this file has too many tables");
    }
    if (!header && (c == '[' || c == '{')) ++depth;
    if (!header && (c == ']' || c == '}')) depth = std::max<std::ptrdiff_t>(0, depth - 1);
    if (c == '.') {
      if (++dots > kMaxKeyDots) return excess(i, "this key has too many parts");
    } else if (c == '\n' || c == '=' || c == ',' || c == '{' || c == '[') {
      dots = 0;
    }
    blank = c == '\n' || (blank && (c == ' ' || c == '\t'));
    ++i;
  }
  return std::nullopt;
}

}  // namespace rigcast
