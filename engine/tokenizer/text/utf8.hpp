#pragma once
// UTF-8 as Unicode defines it: nothing overlong, no surrogates, nothing past U+10FFFF.

#include <cstddef>
#include <string>
#include <string_view>

namespace rigcast::engine {

/// Bytes of the character that `text` begins with, 1 to 4; 0 if it begins with none, or is empty.
std::size_t utf8_length(std::string_view text);

/// The code point of one whole, well-formed character.
char32_t utf8_decode(std::string_view character);

void append_utf8(std::string& text, char32_t code);

/// How many bytes at the end, 0 to 3, begin a character that further bytes could complete.
std::size_t incomplete_utf8_tail(std::string_view text);

}  // namespace rigcast::engine
