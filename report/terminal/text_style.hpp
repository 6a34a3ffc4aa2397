#pragma once
// Text for terminals: widths in code points, colours that can be off, numbers as people read them.

#include <string>
#include <string_view>
#include <vector>

#include "core/base/units.hpp"

namespace rigcast {

struct TextStyle {
  bool colour = false;
  int width = 100;
};

/// Escape codes, or none: a pipe gets the same text without them.
class Paint {
 public:
  explicit Paint(bool colour) : colour_(colour) {}

  std::string bold(std::string_view text) const { return wrap("1", text); }
  std::string dim(std::string_view text) const { return wrap("2", text); }
  std::string yellow(std::string_view text) const { return wrap("33", text); }

 private:
  std::string wrap(std::string_view code, std::string_view text) const;

  bool colour_;
};

/// Code points outside escape codes, which is what a line takes on screen.
std::size_t text_width(std::string_view text);
/// Cut to `width`, with "…" for what is lost. Escape codes are kept.
std::string clip(std::string_view text, std::size_t width);
/// Adds every line of `text` to `out`, clipped to `width` and without spaces at its end.
void append_lines(std::string& out, std::string_view text, std::size_t width);
std::string pad_right(std::string text, std::size_t width);
std::string pad_left(std::string text, std::size_t width);
/// `right` at the end of a line of `width`; on a line of its own where both do not fit.
std::string spread(const std::string& left, const std::string& right, std::size_t width);
/// Broken at spaces.
std::vector<std::string> wrap_words(std::string_view text, std::size_t width);
std::string repeat(std::string_view text, std::size_t times);

/// Names and messages come from files of others: control characters, and with them escape codes,
/// become spaces.
std::string printable(std::string_view text);

/// Three significant digits with thousands separators, no exponent: "0.31", "43.0", "1,230".
std::string three_digits(double value);
std::string rate_text(double tokens_per_s);     // "43.0 tok/s"
std::string share_text(double share);           // "91 %"
std::string percent_text(double share);         // "3.4 %"
std::string signed_percent_text(double share);  // "+3.4 %"
std::string time_text(Seconds time);            // "310 ms"
/// " (0.27 to 0.36)", in the unit that `value` is printed in.
std::string time_interval_text(Seconds value, double lo_s, double hi_s);
std::string rate_interval_text(double lo, double hi);

}  // namespace rigcast
