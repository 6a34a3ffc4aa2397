#pragma once
// Typed reading of TOML. Every error names file, line and column, what was expected and what to
// write. The first error of a document sticks: reading goes on with defaults and error() returns
// it at the end, so that a loader is a plain list of its keys. A key that nobody asked for is an
// error that offers the nearest one that somebody did.

#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/sourced.hpp"
#include "core/text/unit_text.hpp"

namespace rigcast {

class TomlTable;

/// A TOML string that holds any text, quoted.
std::string toml_text(std::string_view text);

class TomlDocument {
 public:
  /// An empty document; `file` is what errors name.
  explicit TomlDocument(std::string file);

  static Result<TomlDocument> parse(std::string_view text, std::string file);
  /// Errors: those of read_input(), of a file larger than 16 MiB, and of its syntax.
  static Result<TomlDocument> read(const std::filesystem::path& path);
  /// The keys before the file's first table alone, which are quick to read.
  static Result<TomlDocument> read_top(const std::filesystem::path& path);

  /// A document with the contents of another document's table. Errors name positions in that
  /// document.
  static TomlDocument of(const TomlTable& table);

  /// Sets "table.key" to a value in TOML syntax; what is no TOML value is taken as text.
  /// Later errors about it name `origin`, for example "--set kv.threshold".
  std::optional<Error> set(std::string_view dotted_key, std::string_view value, std::string origin);
  /// Takes "table.key" out, if it is there.
  void erase(std::string_view dotted_key);
  /// Fills in the keys of `other` that the table under `key` lacks.
  void merge_table_defaults(std::string_view key, const TomlDocument& other);
  /// Fills in every key of `other` that this document lacks, table by table. A figure written as
  /// a table, { value = ..., kind = ..., source = ... }, is whole as it is.
  void merge_defaults(const TomlDocument& other);
  /// A document of its own: setting a key there changes nothing here.
  TomlDocument clone() const;
  bool has(std::string_view dotted_key) const;
  /// The document as TOML.
  std::string text() const;

  TomlTable root() const;
  /// The first error of all reading so far.
  std::optional<Error> error() const;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

/// The kind and source of plain figures, which state none of their own.
struct FigureDefaults {
  SourceKind kind = SourceKind::kAssumed;
  std::string source;
};

class TomlTable {
 public:
  bool has(std::string_view key) const;
  bool is_table(std::string_view key) const;
  std::vector<std::string> keys() const;

  std::string text(std::string_view key) const;  // required
  std::string text_or(std::string_view key, std::string fallback) const;
  std::optional<std::string> find_text(std::string_view key) const;
  std::optional<std::string> find_text_or_none(std::string_view key) const;  // else nullopt
  std::vector<std::string> texts(std::string_view key) const;  // a text alone counts as a list
  /// The texts, numbers and booleans of a list, in TOML syntax.
  std::vector<std::string> values(std::string_view key) const;
  std::int64_t integer(std::string_view key, std::int64_t lo, std::int64_t hi) const;  // required
  std::int64_t integer_or(std::string_view key, std::int64_t fallback, std::int64_t lo,
                          std::int64_t hi) const;
  double number_or(std::string_view key, double fallback, double lo, double hi) const;
  std::vector<double> numbers(std::string_view key, double lo, double hi) const;
  /// The lists of a list, [[1, 2], [3, 4]].
  std::vector<std::vector<double>> number_rows(std::string_view key, double lo, double hi) const;
  bool flag(std::string_view key, bool fallback) const;

  template <class E>
  E choice(std::string_view key, E fallback,
           std::initializer_list<std::pair<std::string_view, E>> choices) const {
    const auto text = find_text(key);
    if (!text) return fallback;
    std::vector<std::string> names;
    for (const auto& [name, value] : choices) {
      if (name == *text) return value;
      names.emplace_back(name);
    }
    refuse_choice(key, *text, names);
    return fallback;
  }

  /// A quantity with a unit, a kind and a source, within [lo, hi].
  template <class Q>
  std::optional<Sourced<Q>> find_figure(std::string_view key, Q lo, Q hi) const {
    const auto raw = figure_text(key);
    if (!raw) return std::nullopt;
    const Result<Q> parsed = parse_quantity(raw->value, static_cast<Q*>(nullptr));
    if (!parsed) {
      refuse(key, parsed.error().message, parsed.error().hint);
      return std::nullopt;
    }
    if (*parsed < lo || *parsed > hi) {
      refuse(key, "\"" + raw->value + "\" is not a plausible figure",
             "expected between " + describe(lo) + " and " + describe(hi));
      return std::nullopt;
    }
    return Sourced<Q>{*parsed, raw->from.kind, raw->from.source};
  }
  template <class Q>
  Sourced<Q> figure(std::string_view key, Q lo, Q hi) const {
    if (auto found = find_figure(key, lo, hi)) return *found;
    require(key);
    return {lo, SourceKind::kAssumed, {}};
  }
  std::optional<Sourced<double>> find_number_figure(std::string_view key, double lo,
                                                    double hi) const;
  Sourced<double> number_figure(std::string_view key, double lo, double hi) const;
  /// A figure that is no quantity, such as a PCI-E link.
  std::optional<Sourced<std::string>> find_text_figure(std::string_view key) const;

  /// The table under `key`; an empty one where there is none.
  TomlTable table(std::string_view key) const;
  std::vector<TomlTable> tables(std::string_view key) const;

  void set_figure_defaults(FigureDefaults defaults) const;
  /// Reports every key of this table that was never asked for.
  void finish() const;
  /// Records an error at `key` (at the table if the key is absent).
  void refuse(std::string_view key, std::string message, std::string hint = {}) const;
  /// As refuse(), for an error from elsewhere, whose position is kept.
  void refuse(std::string_view key, const Error& error) const;
  void require(std::string_view key) const;
  std::string path(std::string_view key) const;

 private:
  friend class TomlDocument;
  struct Node;
  explicit TomlTable(std::shared_ptr<Node> node) : node_(std::move(node)) {}

  struct FigureText {
    std::string value;
    FigureDefaults from;
  };
  FigureDefaults provenance() const;
  std::optional<FigureText> figure_text(std::string_view key) const;
  void refuse_choice(std::string_view key, const std::string& got,
                     const std::vector<std::string>& names) const;
  static std::string describe(Bytes b) { return text_gib(b); }
  static std::string describe(BytesPerSecond r) { return rigcast::text(r); }
  static std::string describe(FlopsPerSecond r) { return rigcast::text(r); }
  static std::string describe(Seconds s) { return rigcast::text(s); }
  static std::string describe(Hertz f);
  static std::string describe(Watts w);
  static std::string describe(Usd u);

  std::shared_ptr<Node> node_;
};

}  // namespace rigcast
