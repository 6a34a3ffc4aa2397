#include "engine/gguf/clean_text.hpp"

#include <cstddef>

namespace rigcast::engine {
namespace {

// The length of the UTF-8 character at the beginning of `text`; 0 if there is none. Overlong forms,
// surrogates and code points beyond U+10FFFF are invalid.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const unsigned lowest = first == 0xE0 ? 0xA0 : 0x80;
    const unsigned highest = first == 0xED ? 0x9F : 0xBF;
    return byte(1) >= lowest && byte(1) <= highest && follows(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const unsigned lowest = first == 0xF0 ? 0x90 : 0x80;
    const unsigned highest = first == 0xF4 ? 0x8F : 0xBF;
    return byte(1) >= lowest && byte(1) <= highest && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

// True for control characters, including U+0080 to U+009F, which some terminals interpret.
bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7F;
  return character.size() == 2 && first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0;
}

}  // namespace

std::string clean_text(std::string_view text) {
  std::string out;
  bool blank = false;
  while (!text.empty()) {
    const std::size_t n = character_bytes(text);
    const std::string_view character = text.substr(0, n > 0 ? n : 1);
    text.remove_prefix(character.size());
    const bool control = n > 0 && is_control(character);
    if (control) {
      if (!blank) out += ' ';
    } else {
      out += n > 0 ? character : std::string_view("?");
    }
    blank = control;
  }
  return out;
}

}  // namespace rigcast::engine
