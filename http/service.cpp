#include "http/service.hpp"

#include <algorithm>
#include <cctype>

namespace rigcast {
namespace {

bool is_same_name(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return std::ranges::equal(a, b, {}, lower, lower);
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

std::string_view HttpHead::path() const {
  return std::string_view(target).substr(0, target.find('?'));
}

}  // namespace rigcast
