#include "engine/tokenizer/text/byte_alphabet.hpp"

#include <array>

#include "engine/tokenizer/text/utf8.hpp"

namespace rigcast::engine {
namespace {

constexpr char32_t kPastLast = 0x100 + 68;

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<int, kPastLast> byte{};  // -1: stands for none
};

constexpr bool is_visible(unsigned byte) {
  return (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
}

constexpr Alphabet make_alphabet() {
  Alphabet a;
  for (int& byte : a.byte) byte = -1;
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    a.character[byte] = is_visible(byte) ? char32_t(byte) : next++;
    a.byte[a.character[byte]] = int(byte);
  }
  return a;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

char32_t byte_character(unsigned char byte) { return kAlphabet.character[byte]; }

std::optional<std::string> bytes_of_characters(std::string_view text) {
  std::string bytes;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return std::nullopt;
    const char32_t code = utf8_decode(text.substr(0, length));
    if (code >= kPastLast || kAlphabet.byte[code] < 0) return std::nullopt;
    bytes += char(kAlphabet.byte[code]);
    text.remove_prefix(length);
  }
  return bytes;
}

}  // namespace rigcast::engine
