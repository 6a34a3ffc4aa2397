#pragma once
// The byte alphabet of GPT-2, in which every byte is a visible character, so that tokens of any
// bytes are text: printable bytes of Latin-1 stand for themselves, the other 68 are U+0100 and up,
// in order.

#include <optional>
#include <string>
#include <string_view>

namespace rigcast::engine {

/// The character that stands for a byte.
char32_t byte_character(unsigned char byte);

/// The bytes that `text` stands for; nothing if one of its characters stands for no byte.
std::optional<std::string> bytes_of_characters(std::string_view text);

}  // namespace rigcast::engine
