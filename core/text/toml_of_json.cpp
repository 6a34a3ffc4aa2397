#include "core/text/toml_of_json.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/text/toml_reader.hpp"

namespace rigcast {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxKeyLength = 64;
constexpr int kMaxDepth = 16;

std::optional<std::string> toml_within(const json& value, int depth) {
  if (value.is_string()) return toml_text(value.get_ref<const std::string&>());
  if (value.is_boolean() || value.is_number()) return value.dump();
  if (value.is_null() || depth == 0) return std::nullopt;
  std::vector<std::string> items;
  for (const auto& [key, item] : value.items()) {
    const auto text = toml_within(item, depth - 1);
    if (!text || (value.is_object() && !is_scenario_key(key))) return std::nullopt;
    items.push_back(value.is_object() ? fmt::format("{} = {}", key, *text) : *text);
  }
  const std::string joined = fmt::format("{}", fmt::join(items, ", "));
  return value.is_object() ? "{ " + joined + " }" : "[" + joined + "]";
}

}  // namespace

bool is_scenario_key(std::string_view text) {
  return !text.empty() && text.size() <= kMaxKeyLength && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

std::optional<std::string> toml_of_json(const json& value) { return toml_within(value, kMaxDepth); }

}  // namespace rigcast
