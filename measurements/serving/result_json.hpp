#pragma once
// JSON that benchmarks of servers write, mostly with Python, and typed reading of it. As with a
// TOML table, the first error sticks and reading goes on.

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"

namespace rigcast {

/// A text, and the file and the line of it in which it begins.
struct ResultText {
  std::string_view text;
  std::string file;
  int line = 1;
};

/// Also takes what Python writes and JSON has not: Infinity and -Infinity become the texts "inf"
/// and "-inf", NaN becomes an empty one. Errors: a text that ends early or is broken, nested deeper
/// than 64, or with a number that no double holds.
Result<nlohmann::json> parse_result_json(const ResultText& source);

/// One object of a file. Refers to the text and to the parsed value.
class ResultObject {
 public:
  ResultObject(const nlohmann::json& json, const ResultText& source);

  /// It is there, and no null.
  bool has(std::string_view key) const;
  /// The object under `key`; an empty one where there is none.
  ResultObject object(std::string_view key) const;
  /// Along several keys.
  ResultObject at(std::initializer_list<std::string_view> keys) const;
  /// Of a list; what is no object in it is refused.
  std::vector<ResultObject> objects(std::string_view key) const;
  /// nullopt: none, null or NaN. Refuses a text, a negative number and one above `most`.
  std::optional<double> number(std::string_view key, double most) const;
  /// As number(), or infinity.
  std::optional<double> number_or_infinity(std::string_view key, double most) const;
  /// As number(), rounded.
  std::optional<int> integer(std::string_view key, int most) const;
  /// A text, or the first one of a list; empty: none.
  std::string text(std::string_view key) const;
  std::optional<bool> flag(std::string_view key) const;
  /// Of a list; empty: none.
  std::vector<double> numbers(std::string_view key, double most) const;

  int line() const { return source_.line; }
  void refuse(std::string_view key, std::string message, std::string hint = {}) const;
  const std::optional<Error>& error() const { return *error_; }

 private:
  ResultObject(const ResultObject& parent, const nlohmann::json& json, std::string key);
  const nlohmann::json* find(std::string_view key) const;
  std::optional<double> checked(std::string_view key, const nlohmann::json& value,
                                double most) const;

  const nlohmann::json* json_;
  ResultText source_;
  std::vector<std::string> path_;  // keys, and places in lists
  std::shared_ptr<std::optional<Error>> error_;
};

}  // namespace rigcast
