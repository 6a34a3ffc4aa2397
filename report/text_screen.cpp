#include "report/text_screen.hpp"

#include <algorithm>

namespace rigcast {
namespace {

constexpr int kNarrowest = 60;

}  // namespace

TextScreen::TextScreen(TextStyle style)
    : paint_(style.colour), width_(std::size_t(std::max(style.width, kNarrowest))) {}

void TextScreen::paragraph(std::string_view label, std::string_view text) {
  const std::size_t indent = text_width(label);
  std::string before(label);
  for (const std::string& part : wrap_words(printable(text), width_ - indent)) {
    line(before + part);
    before.assign(indent, ' ');
  }
}

}  // namespace rigcast
