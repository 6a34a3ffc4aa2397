#include "report/html/escape.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace rigcast {
namespace {

using Json = nlohmann::ordered_json;

bool has_same_keys(const Json& a, const Json& b) {
  return a.size() == b.size() &&
         std::equal(a.items().begin(), a.items().end(), b.items().begin(),
                    [](const auto& x, const auto& y) { return x.key() == y.key(); });
}

// In three objects or more, keys that are written once are shorter.
bool is_table(const Json& list) {
  return list.is_array() && list.size() >= 3 && list.front().is_object() && !list.front().empty() &&
         std::ranges::all_of(list, [&](const Json& item) {
           return item.is_object() && has_same_keys(item, list.front());
         });
}

void pack(Json& value) {
  if (is_table(value)) {
    Json keys = Json::array(), rows = Json::array();
    for (const auto& item : value.front().items()) keys.push_back(item.key());
    for (Json& object : value) {
      Json row = Json::array();
      for (auto& item : object.items()) row.push_back(std::move(item.value()));
      rows.push_back(std::move(row));
    }
    value = Json::object();
    value["$table"] = std::move(keys);
    value["rows"] = std::move(rows);
  }
  if (value.is_structured())
    for (Json& item : value) pack(item);
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 16);
  for (const char c : text) switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  return out;
}

std::string embedded_json(std::string_view json) {
  Json value = Json::parse(json);
  pack(value);
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size());
  for (const char c : text)
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  return out;
}

}  // namespace rigcast
