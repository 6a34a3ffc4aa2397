#pragma once
// One row of a file of measurements, in any format: texts by field name, with typed accessors. As
// with a TOML table, the first error sticks and reading continues.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/units.hpp"
#include "core/text/csv.hpp"

namespace rigcast {

class FieldRow {
 public:
  FieldRow(std::string file, int line) : file_(std::move(file)), line_(line) {}

  void set(std::string name, std::string text, int line, int column);

  bool has(std::string_view name) const { return !text(name).empty(); }
  /// The field's text without surrounding blanks; empty if there is none.
  std::string text(std::string_view name) const;
  /// Within [0, most]; nullopt where there is none.
  std::optional<double> number(std::string_view name, double most) const;
  std::optional<int> integer(std::string_view name, int most) const;
  /// A negative number is "as the program likes": nullopt.
  std::optional<int> integer_or_automatic(std::string_view name, int most) const;
  TokenCount tokens(std::string_view name) const;
  /// 0, 1, true, false, on, off; nullopt where there is none, and for "auto" or -1.
  std::optional<bool> flag(std::string_view name) const;

  void refuse(std::string_view name, std::string message, std::string hint = {}) const;
  int line() const { return line_; }
  const std::optional<Error>& error() const { return error_; }

 private:
  struct Field {
    std::string text;
    int line;
    int column;
  };
  std::optional<double> parsed(std::string_view name) const;

  std::string file_;
  int line_;
  std::map<std::string, Field, std::less<>> fields_;
  mutable std::optional<Error> error_;
};

/// The rows under a header, which names their fields. Errors: a row with more or fewer fields.
Result<std::vector<FieldRow>> field_rows(const std::vector<CsvRow>& rows, const std::string& file);

}  // namespace rigcast
