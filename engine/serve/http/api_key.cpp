#include "engine/serve/http/api_key.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace rigcast::engine {
namespace {

bool begins_with_bearer(std::string_view text) {
  constexpr std::string_view kScheme = "bearer ";  // schemes have no case
  return text.size() >= kScheme.size() &&
         std::ranges::equal(text.substr(0, kScheme.size()), kScheme, {}, [](char c) {
           return char(std::tolower(static_cast<unsigned char>(c)));
         });
}

}  // namespace

bool shows_key(std::string_view authorization, std::string_view key) {
  if (!begins_with_bearer(authorization)) return false;
  std::string_view shown = authorization.substr(7);
  while (shown.starts_with(' ')) shown.remove_prefix(1);
  // Every byte of the key is compared, whichever differs.
  volatile unsigned char differs = shown.size() == key.size() ? 0 : 1;
  for (std::size_t i = 0; i < key.size(); ++i) {
    const char other = i < shown.size() ? shown[i] : '\0';
    differs = static_cast<unsigned char>(differs | static_cast<unsigned char>(other ^ key[i]));
  }
  return differs == 0;
}

}  // namespace rigcast::engine
