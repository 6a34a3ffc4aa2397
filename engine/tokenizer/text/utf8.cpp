#include "engine/tokenizer/text/utf8.hpp"

#include <algorithm>

namespace rigcast::engine {
namespace {

// What a first byte implies: the number of bytes of the character, and the range of the second one.
struct Lead {
  std::size_t length;
  unsigned char low = 0x80, high = 0xBF;
};

Lead lead_of(unsigned char c) {
  if (c < 0x80) return {1};
  if (c < 0xC2) return {0};
  if (c < 0xE0) return {2};
  if (c == 0xE0) return {3, 0xA0, 0xBF};
  if (c == 0xED) return {3, 0x80, 0x9F};
  if (c < 0xF0) return {3};
  if (c == 0xF0) return {4, 0x90, 0xBF};
  if (c < 0xF4) return {4};
  if (c == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

unsigned char byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

// The number of leading bytes of `text` that can belong to one character.
std::size_t matched(std::string_view text, const Lead& lead) {
  const std::size_t most = std::min(lead.length, text.size());
  if (most < 2) return most;
  if (byte_at(text, 1) < lead.low || byte_at(text, 1) > lead.high) return 1;
  std::size_t n = 2;
  while (n < most && (byte_at(text, n) & 0xC0) == 0x80) ++n;
  return n;
}

}  // namespace

std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const Lead lead = lead_of(byte_at(text, 0));
  return matched(text, lead) == lead.length ? lead.length : 0;
}

char32_t utf8_decode(std::string_view character) {
  const std::size_t length = character.size();
  const char32_t first = byte_at(character, 0);
  if (length == 1) return first;
  char32_t code = first & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) code = code << 6 | (byte_at(character, i) & 0x3Fu);
  return code;
}

void append_utf8(std::string& text, char32_t code) {
  if (code < 0x80) {
    text += char(code);
    return;
  }
  const int following = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  // The first byte is 110xxxxx, 1110xxxx or 11110xxx; each other byte holds six bits.
  text += char((0xFFu & ~(0x7Fu >> following)) | code >> (6 * following));
  for (int i = following - 1; i >= 0; --i) text += char(0x80u | (code >> (6 * i) & 0x3Fu));
}

std::size_t incomplete_utf8_tail(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const std::string_view tail = text.substr(text.size() - back);
    const Lead lead = lead_of(byte_at(tail, 0));
    if (lead.length > back && matched(tail, lead) == back) return back;
  }
  return 0;
}

}  // namespace rigcast::engine
