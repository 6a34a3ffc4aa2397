#include "report/terminal/wrap_lines.hpp"

#include <algorithm>

#include "report/terminal/text_style.hpp"

namespace rigcast {
namespace {

std::string wrapped(std::string_view line, std::size_t width, std::size_t indent) {
  const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
  std::string out, before(begin, ' ');
  for (const std::string& part : wrap_words(line.substr(begin), width - begin - indent)) {
    out += (out.empty() ? "" : "\n") + before + part;
    before.assign(begin + indent, ' ');
  }
  return out;
}

}  // namespace

std::string wrap_lines(std::string_view text, std::size_t width, std::size_t indent) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const bool fits = width == 0 || text_width(line) <= width;
    out += fits ? std::string(line) : wrapped(line, width, indent);
    if (end < text.size()) out += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace rigcast
