#include "measurements/field_row.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace rigcast {
namespace {

constexpr int kMaxTokens = 1 << 30;

// The text for an error message, truncated.
std::string shown(const std::string& text) {
  return text.size() <= 40 ? text : text.substr(0, 40) + "...";
}

std::string trimmed(std::string text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

}  // namespace

void FieldRow::set(std::string name, std::string text, int line, int column) {
  fields_.insert_or_assign(std::move(name), Field{trimmed(std::move(text)), line, column});
}

std::string FieldRow::text(std::string_view name) const {
  const auto it = fields_.find(name);
  return it == fields_.end() ? "" : it->second.text;
}

void FieldRow::refuse(std::string_view name, std::string message, std::string hint) const {
  if (error_) return;
  const auto it = fields_.find(name);
  const bool known = it != fields_.end();
  error_ =
      bad_input(fmt::format("{}: {}", name, message), std::move(hint),
                SourceRef{file_, known ? it->second.line : line_, known ? it->second.column : 1});
}

// Any finite number that fills the field.
std::optional<double> FieldRow::parsed(std::string_view name) const {
  const std::string given = text(name);
  if (given.empty()) return std::nullopt;
  double value = 0;
  const char* end = given.data() + given.size();
  const auto [after, code] = std::from_chars(given.data(), end, value);
  if (code == std::errc{} && after == end && std::isfinite(value)) return value;
  refuse(name, fmt::format("\"{}\" is no number", shown(given)), "expected one like 12.5");
  return std::nullopt;
}

std::optional<double> FieldRow::number(std::string_view name, double most) const {
  const auto value = parsed(name);
  if (!value || (*value >= 0 && *value <= most)) return value;
  refuse(name, fmt::format("{} is out of range", *value), fmt::format("0 to {}", most));
  return std::nullopt;
}

std::optional<int> FieldRow::integer(std::string_view name, int most) const {
  const auto value = number(name, most);
  if (!value) return std::nullopt;
  if (*value == std::floor(*value)) return int(*value);
  refuse(name, fmt::format("{} is no whole number", *value));
  return std::nullopt;
}

std::optional<int> FieldRow::integer_or_automatic(std::string_view name, int most) const {
  const auto value = parsed(name);
  if (!value || *value < 0) return std::nullopt;
  return integer(name, most);
}

TokenCount FieldRow::tokens(std::string_view name) const {
  return integer(name, kMaxTokens).value_or(0);
}

std::optional<bool> FieldRow::flag(std::string_view name) const {
  const std::string given = text(name);
  if (given.empty() || given == "auto" || given == "-1") return std::nullopt;
  if (given == "1" || given == "true" || given == "on") return true;
  if (given == "0" || given == "false" || given == "off") return false;
  refuse(name, fmt::format("\"{}\" is neither on nor off", shown(given)), "expected 0 or 1");
  return std::nullopt;
}

Result<std::vector<FieldRow>> field_rows(const std::vector<CsvRow>& rows, const std::string& file) {
  std::vector<FieldRow> records;
  if (rows.empty()) return records;
  const CsvRow& header = rows.front();
  for (auto row = rows.begin() + 1; row != rows.end(); ++row) {
    if (row->size() != header.size())
      return bad_input(fmt::format("{} fields under {} columns", row->size(), header.size()),
                       "put a field that holds a comma into quotes",
                       SourceRef{file, row->front().line, 1});
    FieldRow& field_row = records.emplace_back(file, row->front().line);
    for (std::size_t i = 0; i < header.size(); ++i) {
      const CsvField& field = (*row)[i];
      field_row.set(header[i].text, field.text, field.line, field.column);
    }
  }
  return records;
}

}  // namespace rigcast
