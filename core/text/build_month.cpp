#include "core/text/build_month.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace rigcast {

std::optional<double> read_build(const TomlTable& t) {
  const auto given = t.find_text("build");
  if (!given) return std::nullopt;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const bool formed = given->size() == 7 && (*given)[4] == '-' &&
                      std::ranges::all_of(given->substr(0, 4) + given->substr(5), is_digit);
  const int year = formed ? std::stoi(given->substr(0, 4)) : 0;
  const int month = formed ? std::stoi(given->substr(5)) : 0;
  if (year >= 2023 && year <= 2099 && month >= 1 && month <= 12) return year + (month - 1) / 12.0;
  t.refuse("build", fmt::format("\"{}\" is no month of a build", *given),
           "expected 2023-01 to 2099-12, for example \"2025-07\"");
  return std::nullopt;
}

}  // namespace rigcast
