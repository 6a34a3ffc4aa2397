#include "report/terminal/text_style.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/text/unit_text.hpp"

namespace rigcast {
namespace {

constexpr std::string_view kUnknown = "-";

bool starts_code_point(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

// Length of the escape code at `at`, 0 if there is none.
std::size_t escape_length(std::string_view text, std::size_t at) {
  if (text[at] != '\x1b') return 0;
  const std::size_t end = text.find('m', at);
  return end == std::string_view::npos ? text.size() - at : end - at + 1;
}

double rounded(double value) {
  if (value == 0) return 0;
  const double scale = std::pow(10.0, 2 - std::floor(std::log10(std::fabs(value))));
  return std::round(value * scale) / scale;
}

}  // namespace

std::string Paint::wrap(std::string_view code, std::string_view text) const {
  if (!colour_ || text.empty()) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

std::size_t text_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t i = 0; i < text.size();) {
    if (const std::size_t escape = escape_length(text, i)) {
      i += escape;
    } else {
      width += starts_code_point(text[i]);
      ++i;
    }
  }
  return width;
}

std::string clip(std::string_view text, std::size_t width) {
  if (text_width(text) <= width) return std::string(text);
  std::string out;
  std::size_t shown = 0;
  for (std::size_t i = 0; i < text.size();) {
    if (const std::size_t escape = escape_length(text, i)) {
      out.append(text.substr(i, escape));
      i += escape;
      continue;
    }
    if (starts_code_point(text[i]) && ++shown == width) out += "…";
    if (shown < width) out += text[i];
    ++i;
  }
  return out;
}

void append_lines(std::string& out, std::string_view text, std::size_t width) {
  while (true) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string shown = clip(text.substr(0, end), width);
    shown.erase(shown.find_last_not_of(' ') + 1);
    out += shown + '\n';
    if (end == text.size()) return;
    text.remove_prefix(end + 1);
  }
}

std::string pad_right(std::string text, std::size_t width) {
  const std::size_t now = text_width(text);
  return now < width ? text.append(width - now, ' ') : text;
}

std::string pad_left(std::string text, std::size_t width) {
  const std::size_t now = text_width(text);
  return now < width ? std::string(width - now, ' ') + text : text;
}

std::string spread(const std::string& left, const std::string& right, std::size_t width) {
  if (right.empty()) return left;
  const std::size_t used = text_width(left) + text_width(right);
  if (used + 2 <= width) return left + std::string(width - used, ' ') + right;
  return left + "\n" + pad_left(right, width);
}

std::vector<std::string> wrap_words(std::string_view text, std::size_t width) {
  std::vector<std::string> lines(1);
  while (!text.empty()) {
    std::size_t end = std::min(text.find(' '), text.size());
    if (text.substr(end).starts_with(" %")) end = std::min(text.find(' ', end + 1), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    const bool first = lines.back().empty();
    if (!first && text_width(lines.back()) + 1 + text_width(word) > width) lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
  }
  return lines;
}

std::string repeat(std::string_view text, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += text;
  return out;
}

std::string printable(std::string_view text) {
  std::string out(text);
  const auto is_control = [](char c) {
    const auto code = static_cast<unsigned char>(c);
    return code < 0x20 || code == 0x7f;
  };
  std::replace_if(out.begin(), out.end(), is_control, ' ');
  return out;
}

std::string three_digits(double value) {
  if (!std::isfinite(value)) return std::string(kUnknown);
  const double v = rounded(value);
  const double magnitude = std::fabs(v);
  if (magnitude == 0) return "0";
  if (magnitude >= 1e15) return fmt::format("{:.3g}", v);
  if (magnitude >= 100) return text_count(std::llround(v));
  if (magnitude >= 10) return fmt::format("{:.1f}", v);
  if (magnitude >= 1) return fmt::format("{:.2f}", v);
  return fmt::format("{:.{}f}", v, int(2 - std::floor(std::log10(magnitude) + 1e-9)));
}

std::string rate_text(double tokens_per_s) { return three_digits(tokens_per_s) + " tok/s"; }

std::string share_text(double share) {
  if (!std::isfinite(share)) return std::string(kUnknown);
  return fmt::format("{:.0f} %", 100 * share);
}

std::string percent_text(double share) {
  return std::isfinite(share) ? fmt::format("{:.1f} %", 100 * share) : std::string(kUnknown);
}

std::string signed_percent_text(double share) {
  return std::isfinite(share) ? fmt::format("{:+.1f} %", 100 * share) : std::string(kUnknown);
}

std::string time_text(Seconds time) {
  return std::isfinite(time.value) ? text(time) : std::string(kUnknown);
}

std::string time_interval_text(Seconds value, double lo_s, double hi_s) {
  const std::string shown = time_text(value);
  double factor = 1;
  if (shown.ends_with(" ms")) factor = 1e3;
  if (shown.ends_with(" us")) factor = 1e6;
  return rate_interval_text(lo_s * factor, hi_s * factor);
}

std::string rate_interval_text(double lo, double hi) {
  if (!std::isfinite(lo) || !std::isfinite(hi)) return "";
  return fmt::format(" ({} to {})", three_digits(lo), three_digits(hi));
}

}  // namespace rigcast
