#include "library/scenario_text.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/text/toml_of_json.hpp"

namespace rigcast {
namespace {

using nlohmann::json;

constexpr const char* kName = "scenario";

Error at(const std::string& key, std::string message, std::string hint = {}) {
  Error error = bad_input(std::move(message), std::move(hint), SourceRef{key});
  error.key = key;
  return error;
}

Result<json> parse_json(std::string_view text) {
  try {
    return json::parse(text);
  } catch (const json::exception& e) {
    const std::string_view what =
        e.what();  // "[json.exception.parse_error.101] parse error at ..."
    return bad_input(std::string(what.substr(what.find("] ") + 2)), "this is not valid JSON",
                     SourceRef{kName});
  }
}

Result<TomlDocument> document_of(const json& scenario) {
  TomlDocument document(kName);
  for (const auto& [table, keys] : scenario.items()) {
    if (!is_scenario_key(table) || !keys.is_object())
      return at(table, "expected a table of a scenario with its keys",
                R"({"rig": {"gpu": ["rtx-4090"]}, "model": {"name": "llama-3.1-8b"}})");
    for (const auto& [key, value] : keys.items()) {
      const std::string name = fmt::format("{}.{}", table, key);
      const auto text = is_scenario_key(key) ? toml_of_json(value) : std::nullopt;
      if (!text) return at(name, "no value of a scenario", "leave the key out for its default");
      if (auto error = document.set(name, *text, name)) return *error;
    }
  }
  return document;
}

}  // namespace

Result<TomlDocument> scenario_document(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] != '{')
    return TomlDocument::parse(text, kName);
  const auto parsed = parse_json(text);
  if (!parsed) return parsed.error();
  return document_of(*parsed);
}

}  // namespace rigcast
