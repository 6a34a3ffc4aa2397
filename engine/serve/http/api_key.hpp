#pragma once
// The key that clients show.

#include <string_view>

namespace rigcast::engine {

/// True if the value of an Authorization header is "Bearer KEY". The time that this takes tells
/// nothing about the key but its length.
bool shows_key(std::string_view authorization, std::string_view key);

}  // namespace rigcast::engine
