#pragma once
// Lines of a report for people, none wider than the screen.

#include <string>
#include <string_view>

#include "report/terminal/text_style.hpp"

namespace rigcast {

/// The base class of text reports: each derives from it and adds its parts.
class TextScreen {
 protected:
  explicit TextScreen(TextStyle style);
  ~TextScreen() = default;

  /// Clipped where it is too wide; several, where it has line ends.
  void line(std::string_view text) { append_lines(out_, text, width_); }
  void gap() { out_ += '\n'; }
  /// A label, then text that wraps under itself; control characters become spaces.
  void paragraph(std::string_view label, std::string_view text);

  Paint paint_;
  std::size_t width_;
  std::string out_;
};

}  // namespace rigcast
