#include "http/service.hpp"

#include <algorithm>
#include <cctype>

namespace rigcast {
namespace {

bool is_same_name(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return std::ranges::equal(a, b, {}, lower, lower);
}

// What stands before the next `mark` of a list, without blanks; the list goes on behind it.
std::string_view next_item(std::string_view& list, char mark) {
  std::string_view item = list.substr(0, list.find(mark));
  list.remove_prefix(std::min(list.size(), item.size() + 1));
  constexpr const char* kBlanks = " \t";
  item.remove_prefix(std::min(item.size(), item.find_first_not_of(kBlanks)));
  return item.substr(0, item.find_last_not_of(kBlanks) + 1);
}

// True for a parameter q=0, q=0.0, q=0.00 or q=0.000.
bool is_no_weight(std::string_view parameter) {
  return (parameter.starts_with("q=0") || parameter.starts_with("Q=0")) &&
         parameter.find_first_not_of("0.", 2) == std::string_view::npos;
}

}  // namespace

std::vector<std::string_view> HttpHead::all(std::string_view name) const {
  std::vector<std::string_view> out;
  for (const auto& [key, value] : fields)
    if (is_same_name(key, name)) out.emplace_back(value);
  return out;
}

std::string_view HttpHead::first(std::string_view name) const {
  const auto values = all(name);
  return values.empty() ? std::string_view() : values.front();
}

bool HttpHead::accepts(std::string_view type) const {
  for (std::string_view types : all("Accept"))
    while (!types.empty()) {
      std::string_view item = next_item(types, ',');
      if (!is_same_name(next_item(item, ';'), type)) continue;
      bool is_wanted = true;
      while (!item.empty()) is_wanted &= !is_no_weight(next_item(item, ';'));
      if (is_wanted) return true;
    }
  return false;
}

std::string_view HttpHead::path() const {
  return std::string_view(target).substr(0, target.find('?'));
}

}  // namespace rigcast
