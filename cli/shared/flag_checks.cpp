#include "cli/shared/flag_checks.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <limits>

namespace rigcast::cli {
namespace {

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(' ');
  return first == std::string::npos ? ""
                                    : text.substr(first, text.find_last_not_of(' ') + 1 - first);
}

std::vector<std::string> items_of(const std::string& list) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    out.push_back(trimmed(list.substr(begin, end - begin)));
    begin = end + 1;
  }
  return out;
}

std::string whole_text(std::int64_t lo, std::int64_t hi) {
  if (hi == std::numeric_limits<std::int64_t>::max())
    return fmt::format("a whole number of at least {}", lo);
  return fmt::format("a whole number from {} to {}", lo, hi);
}

}  // namespace

CLI::Validator number_within(double lo, double hi) {
  const auto check = [lo, hi](const std::string& text) {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    const bool is_number = !text.empty() && *end == 0;
    return is_number && value >= lo && value <= hi
               ? std::string()
               : fmt::format("expected a number from {:g} to {:g}, got \"{}\"", lo, hi, text);
  };
  return CLI::Validator(check, "");
}

CLI::Validator integer_within(std::int64_t lo, std::int64_t hi) {
  const auto check = [lo, hi](const std::string& text) {
    std::int64_t value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    // What reads the text next would take "010" for 8.
    const bool is_octal = text.size() > 1 && text.front() == '0';
    const bool is_whole = code == std::errc() && end == text.data() + text.size() && !is_octal;
    return is_whole && value >= lo && value <= hi
               ? std::string()
               : fmt::format("expected {}, got \"{}\"", whole_text(lo, hi), text);
  };
  return CLI::Validator(check, "");
}

CLI::Validator not_empty() {
  const auto check = [](const std::string& text) {
    return std::string(trimmed(text).empty() ? "an empty value (an unset shell variable?)" : "");
  };
  return CLI::Validator(check, "");
}

CLI::Option* add_list(CLI::App& verb, const std::string& name, std::vector<std::string>& items,
                      const std::string& help,
                      const std::function<std::string(std::string&)>& check) {
  const auto check_items = [check](const std::string& list) {
    if (trimmed(list).empty()) return std::string("an empty value (an unset shell variable?)");
    for (std::string item : items_of(list)) {
      if (item.empty()) return fmt::format("an item is empty in \"{}\"", list);
      if (std::string why = check ? check(item) : ""; !why.empty()) return why;
    }
    return std::string();
  };
  const auto take = [&items](const std::vector<std::string>& lists) {
    for (const std::string& list : lists)
      for (std::string& item : items_of(list)) items.push_back(std::move(item));
  };
  return verb.add_option_function<std::vector<std::string>>(name, take, help)
      ->allow_extra_args(false)
      ->take_all()
      ->check(CLI::Validator(check_items, ""));
}

}  // namespace rigcast::cli
