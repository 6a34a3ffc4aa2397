#include "cli/ui/page_address.hpp"

#include <fmt/format.h>

#include <cctype>
#include <string_view>

namespace rigcast::cli {
namespace {

std::string encoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain = byte < 0x80 && (std::isalnum(byte) || c == '-' || c == '.' || c == '_');
    out += is_plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return out;
}

}  // namespace

std::string fragment_of(const Asked& asked) {
  std::string out;
  for (const auto& [key, value] : asked)
    out += fmt::format("{}{}={}", out.empty() ? "#forecast?" : "&", key, encoded(value));
  return out;
}

}  // namespace rigcast::cli
