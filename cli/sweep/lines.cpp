#include "cli/sweep/lines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "core/text/csv.hpp"
#include "core/text/csv_quote.hpp"
#include "core/text/unit_text.hpp"

namespace rigcast::cli {
namespace {

using Json = SweepRow;

constexpr std::size_t kMaxTextRows = 200;

std::string csv_field(const Json& value) {
  if (value.is_null()) return "";
  return value.is_string() ? csv_quote(value.get<std::string>()) : value.dump();
}

// A swept value as the type that it has in a scenario: the sweep keeps the words of the command.
Json typed(const Json& value) {
  const Json parsed = Json::parse(value.get<std::string>(), nullptr, false);
  return parsed.is_number() || parsed.is_boolean() ? parsed : value;
}

void give_types(Json& row) {
  for (auto& [key, value] : row.items())
    if (value.is_string() && key.find('.') != std::string::npos) value = typed(value);
}

}  // namespace

std::string line_of(SweepRow row, Format format) {
  if (format != Format::kCsv) {
    give_types(row);
    return row.dump() + "\n";
  }
  std::string out;
  for (const auto& [key, value] : row.items()) out += (out.empty() ? "" : ",") + csv_field(value);
  return out + "\n";
}

std::string header_of(const SweepRow& row) {
  std::string out;
  for (const auto& [key, value] : row.items()) out += (out.empty() ? "" : ",") + csv_field(key);
  return out + "\n";
}

std::vector<SweepRow> rows_of(const std::string& lines) {
  std::vector<Json> out;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) out.push_back(Json::parse(line));
  return out;
}

Result<std::vector<SweepRow>> rows_of_csv(const std::string& csv,
                                          const std::vector<std::string>& keys) {
  const auto table = parse_csv(csv, "the sweep");
  if (!table) return table.error();
  std::vector<SweepRow> out;
  for (std::size_t i = 1; i < table->size(); ++i) {
    SweepRow& row = out.emplace_back();
    for (std::size_t k = 0; k < (*table)[i].size() && k < table->front().size(); ++k) {
      const std::string &name = table->front()[k].text, &text = (*table)[i][k].text;
      const bool is_text = name == "error" || std::ranges::find(keys, name) != keys.end();
      row[name] = is_text ? Json(text) : text.empty() ? Json() : Json::parse(text, nullptr, false);
      if (row[name].is_discarded())
        return bad_input(fmt::format("\"{}\" is no {} of a sweep", text, name));
    }
  }
  return out;
}

std::string sweep_json(const std::vector<std::string>& keys, const std::vector<SweepRow>& rows) {
  Json out = {{"schema", "rigcast.sweep/1"},
              {"keys", Json::array()},
              {"columns", Json::array()},
              {"rows", Json::array()}};
  for (const std::string& key : keys) out["keys"].push_back(key);
  if (!rows.empty())
    for (const auto& [key, value] : rows.front().items()) out["columns"].push_back(key);
  for (Json row : rows) {
    give_types(row);
    Json values = Json::array();
    for (auto& [key, value] : row.items()) values.push_back(std::move(value));
    out["rows"].push_back(std::move(values));
  }
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string sweep_text(const std::vector<SweepRow>& rows) {
  if (rows.empty()) return {};
  const std::size_t shown = std::min(rows.size(), kMaxTextRows);
  std::string out = header_of(rows.front());
  for (std::size_t i = 0; i < shown; ++i) out += line_of(rows[i], Format::kCsv);
  if (shown < rows.size())
    out += fmt::format("{} more: in the JSON\n", text_count(std::int64_t(rows.size() - shown)));
  return out;
}

}  // namespace rigcast::cli
