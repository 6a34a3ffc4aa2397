#pragma once
// GPT-2 writes every byte as a visible character, so that tokens of any bytes are text: printable
// bytes of Latin-1 as themselves, the other 68 as U+0100 and up, in order.

#include <optional>
#include <string>
#include <string_view>

namespace rigcast::engine {

/// The character that stands for a byte.
char32_t byte_character(unsigned char byte);

/// The bytes that `text` stands for; nothing if one of its characters stands for no byte.
std::optional<std::string> bytes_of_characters(std::string_view text);

}  // namespace rigcast::engine
