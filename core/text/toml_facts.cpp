#include "core/text/toml_facts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/text/toml_parser.hpp"

namespace rigcast {
namespace {

std::string plain_text(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto whole = node.value_exact<std::int64_t>()) return fmt::format("{}", *whole);
  if (const auto number = node.value_exact<double>()) return fmt::format("{}", *number);
  if (const auto flag = node.value_exact<bool>()) return *flag ? "true" : "false";
  return "";
}

bool is_number(const toml::node& node) { return node.is_number() || node.is_boolean(); }

void add_facts(const toml::node& node, const std::string& key, std::vector<TomlFact>& out);

void add_table(const toml::table& table, const std::string& key, std::vector<TomlFact>& out) {
  if (const toml::node* value = table.get("value")) {
    TomlFact fact{key, plain_text(*value), is_number(*value), {}, {}};
    if (const toml::node* kind = table.get("kind")) fact.kind = plain_text(*kind);
    if (const toml::node* source = table.get("source")) fact.source = plain_text(*source);
    out.push_back(std::move(fact));
    return;
  }
  // Values come before the tables within, as they do in files.
  for (const bool wants_tables : {false, true})
    for (const auto& [name, child] : table)
      if (child.is_table() == wants_tables)
        add_facts(child,
                  key.empty() ? std::string(name.str()) : fmt::format("{}.{}", key, name.str()),
                  out);
}

void add_facts(const toml::node& node, const std::string& key, std::vector<TomlFact>& out) {
  if (const toml::table* table = node.as_table()) return add_table(*table, key, out);
  const toml::array* list = node.as_array();
  if (!list) {
    out.push_back({key, plain_text(node), is_number(node), {}, {}});
    return;
  }
  const bool is_plain = std::ranges::none_of(
      *list, [](const toml::node& item) { return item.is_table() || item.is_array(); });
  if (is_plain) {
    std::string items;
    for (const toml::node& item : *list) items += (items.empty() ? "" : ", ") + plain_text(item);
    out.push_back({key, std::move(items), false, {}, {}});
    return;
  }
  for (std::size_t i = 0; i < list->size(); ++i)
    add_facts(*list->get(i), fmt::format("{}[{}]", key, i), out);
}

}  // namespace

std::vector<TomlFact> facts_of(const TomlDocument& document) {
  std::vector<TomlFact> out;
  try {
    add_facts(toml::parse(document.text()), "", out);
  } catch (const toml::parse_error&) {  // what was read once is read again
    RIGCAST_ASSERT(false);
  }
  return out;
}

}  // namespace rigcast
