#include "core/text/toml_reader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <sstream>

#include "core/files/input_file.hpp"
#include "core/text/nearest_name.hpp"
#include "core/text/toml_excess.hpp"
#include "core/text/toml_parser.hpp"

namespace rigcast {

struct TomlDocument::State {
  std::string file;
  toml::table root;
  std::map<std::string, std::string, std::less<>> origins;  // dotted key -> who set it
  // Dotted key -> where its value stands: toml++ forgets that when a table is copied.
  std::map<std::string, SourceRef, std::less<>> places;
  std::optional<Error> first_error;
};

struct TomlTable::Node {
  std::shared_ptr<TomlDocument::State> state;
  const toml::table* table = nullptr;  // null: absent, reads as empty
  std::string prefix;                  // "kv."
  std::set<std::string, std::less<>> asked;
  std::shared_ptr<FigureDefaults> defaults;

  const toml::node* find(std::string_view key) {
    asked.emplace(key);
    return table ? table->get(key) : nullptr;
  }
};

namespace {

constexpr std::size_t kMaxFileBytes = 16u << 20;

std::string_view kind_of(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table: return "a table";
    case toml::node_type::array: return "a list";
    case toml::node_type::string: return "text";
    case toml::node_type::integer: return "a whole number";
    case toml::node_type::floating_point: return "a number";
    case toml::node_type::boolean: return "true or false";
    default: return "a date or time";
  }
}

// One step along "a.b.c": the part before the dot, and the rest.
std::pair<std::string_view, std::string_view> split_key(std::string_view dotted) {
  const auto dot = dotted.find('.');
  if (dot == std::string_view::npos) return {dotted, {}};
  return {dotted.substr(0, dot), dotted.substr(dot + 1)};
}

// A figure with its own kind or source is one thing: another's are not what it lacks.
bool is_figure(const toml::table& table) { return table.contains("value"); }

void merge(toml::table& into, const toml::table& from) {
  for (const auto& [key, node] : from) {
    toml::node* mine = into.get(key.str());
    if (!mine) {
      into.insert(key.str(), node);
    } else if (mine->is_table() && node.is_table() && !is_figure(*mine->as_table())) {
      merge(*mine->as_table(), *node.as_table());
    }
  }
}

using Places = std::map<std::string, SourceRef, std::less<>>;

// Every value's path is kept: one long key, or lists deep in lists, makes all of them long.
constexpr std::size_t kMaxPathBytes = 64u << 20;

// Takes the bytes of paths from `room`; returns a value for which there is none left, or nullptr.
const toml::node* note_places(const toml::node& node, const std::string& path,
                              const std::string& file, std::size_t& room, Places& places) {
  if (path.size() > room) return &node;
  room -= path.size();
  const auto& at = node.source().begin;
  if (at.line > 0) places.insert_or_assign(path, SourceRef{file, int(at.line), int(at.column)});
  const toml::node* first = nullptr;
  if (const toml::table* table = node.as_table()) {
    const std::string prefix = path.empty() ? path : path + ".";
    for (const auto& [key, value] : *table)
      if (!first) first = note_places(value, prefix + std::string(key.str()), file, room, places);
  } else if (const toml::array* list = node.as_array()) {
    for (std::size_t i = 0; i < list->size() && !first; ++i)
      first = note_places(*list->get(i), fmt::format("{}[{}]", path, i), file, room, places);
  }
  return first;
}

// toml++ negates a number in a list to count its digits, which the least one does not survive.
bool is_writable(const toml::node& node, bool in_list = false) {
  const toml::table* table = node.as_table();
  const toml::array* list = node.as_array();
  in_list = in_list || list || (table && table->is_inline());
  bool all =
      !in_list || node.value_exact<std::int64_t>() != std::numeric_limits<std::int64_t>::min();
  if (table)
    for (const auto& [key, value] : *table) all = all && is_writable(value, in_list);
  if (list)
    for (const toml::node& item : *list) all = all && is_writable(item, in_list);
  return all;
}

// Tables that are written as { ... } in another document are sections of one of their own; figures
// are not.
void write_as_sections(toml::table& root) {
  root.is_inline(false);
  for (auto&& [key, node] : root)
    if (toml::table* table = node.as_table(); table && !is_figure(*table)) table->is_inline(false);
}

// nullopt: it is no list, or one of other things than numbers within [lo, hi].
std::optional<std::vector<double>> numbers_of(const toml::node& node, double lo, double hi) {
  if (!node.is_array()) return std::nullopt;
  std::vector<double> out;
  for (const toml::node& item : *node.as_array()) {
    out.push_back((item.is_number() ? item.value<double>() : std::nullopt).value_or(NAN));
    if (!(out.back() >= lo && out.back() <= hi)) return std::nullopt;
  }
  return out;
}

bool is_within(std::string_view path, std::string_view ancestor) {
  return path.starts_with(ancestor) &&
         (path.size() == ancestor.size() || path[ancestor.size()] == '.' ||
          path[ancestor.size()] == '[');
}

}  // namespace

std::string toml_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out += fmt::format("\\u{:04X}", int(c));
    else
      out += c;
  }
  return out + '"';
}

TomlDocument::TomlDocument(std::string file) : state_(std::make_shared<State>()) {
  state_->file = std::move(file);
}

Result<TomlDocument> TomlDocument::parse(std::string_view text, std::string file) {
  if (const auto excess = find_toml_excess(text))
    return bad_input(excess->message, "write a few [tables] of a few levels",
                     SourceRef{std::move(file), excess->at.line, excess->at.column});
  TomlDocument document(file);
  try {
    document.state_->root = toml::parse(text, file);
    State& state = *document.state_;
    std::size_t room = kMaxPathBytes;
    if (const toml::node* value = note_places(state.root, "", file, room, state.places)) {
      const auto& at = value->source().begin;
      return bad_input("the keys and lists around values here are too long or too deep",
                       "write [tables] of a few levels",
                       SourceRef{std::move(file), int(at.line), int(at.column)});
    }
  } catch (const toml::parse_error& e) {
    const auto& at = e.source().begin;
    return bad_input(std::string(e.description()), "this is not valid TOML at that point",
                     SourceRef{std::move(file), int(at.line), int(at.column)});
  }
  if (!is_writable(document.state_->root))
    return bad_input("a list has a whole number below -9223372036854775807", {},
                     SourceRef{std::move(file)});
  return document;
}

Result<TomlDocument> TomlDocument::read(const std::filesystem::path& path) {
  const auto text = read_input(path, kMaxFileBytes);
  if (!text) return text.error();
  return parse(*text, path.string());
}

Result<TomlDocument> TomlDocument::read_top(const std::filesystem::path& path) {
  const auto text = read_input(path, kMaxFileBytes);
  if (!text) return text.error();
  return parse(std::string_view(*text).substr(0, text->find("\n[")), path.string());
}

TomlDocument TomlDocument::of(const TomlTable& table) {
  const TomlTable::Node& node = *table.node_;
  TomlDocument out(node.state->file);
  if (node.table) out.state_->root = *node.table;
  write_as_sections(out.state_->root);
  for (const auto& [path, place] : node.state->places) {
    if (path.starts_with(node.prefix))
      out.state_->places.emplace(path.substr(node.prefix.size()), place);
    else if (path + "." == node.prefix)
      out.state_->places.emplace("", place);
  }
  return out;
}

std::optional<Error> TomlDocument::set(std::string_view dotted_key, std::string_view value,
                                       std::string origin) {
  if (std::ranges::count(dotted_key, '.') > kMaxKeyDots)
    return bad_input(fmt::format("{}: the key has too many parts", origin));
  toml::table* table = &state_->root;
  auto [head, rest] = split_key(dotted_key);
  for (; !rest.empty(); std::tie(head, rest) = split_key(rest)) {
    if (!table->get(head)) table->insert(head, toml::table{});
    toml::node* next = table->get(head);
    if (!next->is_table()) return bad_input(fmt::format("{}: \"{}\" is not a table", origin, head));
    table = next->as_table();
  }
  if (head.empty()) return bad_input(fmt::format("{}: the key is empty", origin));
  // A one-key document decides what the value is; anything that does not parse is plain text.
  bool inserted = false;
  if (value.find('\n') == std::string_view::npos && !find_toml_excess(value)) {
    try {
      toml::table parsed = toml::parse("value = " + std::string(value));
      if (parsed.size() == 1 && is_writable(parsed)) {
        table->insert_or_assign(head, *parsed.get("value"));
        inserted = true;
      }
    } catch (const toml::parse_error&) {
    }
  }
  if (!inserted) table->insert_or_assign(head, std::string(value));
  std::erase_if(state_->places, [&](const auto& p) { return is_within(p.first, dotted_key); });
  state_->origins[std::string(dotted_key)] = std::move(origin);
  return std::nullopt;
}

void TomlDocument::erase(std::string_view dotted_key) {
  toml::table* table = &state_->root;
  auto [head, rest] = split_key(dotted_key);
  for (; !rest.empty(); std::tie(head, rest) = split_key(rest)) {
    toml::node* next = table->get(head);
    if (!next || !next->is_table()) return;
    table = next->as_table();
  }
  table->erase(head);
}

void TomlDocument::merge_table_defaults(std::string_view key, const TomlDocument& other) {
  if (!state_->root.get(key)) state_->root.insert(key, toml::table{});
  if (toml::table* mine = state_->root.get_as<toml::table>(key)) merge(*mine, other.state_->root);
  for (const auto& [path, place] : other.state_->places)
    if (!path.empty()) state_->places.emplace(fmt::format("{}.{}", key, path), place);
}

void TomlDocument::merge_defaults(const TomlDocument& other) {
  merge(state_->root, other.state_->root);
  for (const auto& [path, place] : other.state_->places) state_->places.emplace(path, place);
}

TomlDocument TomlDocument::clone() const {
  TomlDocument copy(state_->file);
  *copy.state_ = *state_;
  return copy;
}

bool TomlDocument::has(std::string_view dotted_key) const {
  const toml::table* table = &state_->root;
  for (auto [head, rest] = split_key(dotted_key);; std::tie(head, rest) = split_key(rest)) {
    const toml::node* node = table->get(head);
    if (!node || rest.empty()) return node != nullptr;
    table = node->as_table();
    if (!table) return false;
  }
}

std::string TomlDocument::text() const {
  std::ostringstream out;
  out << state_->root << '\n';
  return out.str();
}

TomlTable TomlDocument::root() const {
  auto node = std::make_shared<TomlTable::Node>();
  node->state = state_;
  node->table = &state_->root;
  node->defaults = std::make_shared<FigureDefaults>();
  return TomlTable(std::move(node));
}

std::optional<Error> TomlDocument::error() const { return state_->first_error; }

bool TomlTable::has(std::string_view key) const { return node_->find(key) != nullptr; }

bool TomlTable::is_table(std::string_view key) const {
  return has(key) && node_->table->get(key)->is_table();
}

std::vector<std::string> TomlTable::keys() const {
  std::vector<std::string> out;
  if (node_->table)
    for (const auto& [key, value] : *node_->table) out.emplace_back(key.str());
  return out;
}

std::string TomlTable::path(std::string_view key) const { return node_->prefix + std::string(key); }

void TomlTable::refuse(std::string_view key, std::string message, std::string hint) const {
  auto& state = *node_->state;
  if (state.first_error) return;
  const std::string full = path(key);
  // The position of the key, else of the nearest enclosing table that has one.
  SourceRef where{state.file};
  for (std::string_view at = full;;) {
    if (const auto set = state.origins.find(at); set != state.origins.end()) {
      // The option names its own key already.
      if (at != full) message = full + ": " + message;
      state.first_error = bad_input(std::move(message), std::move(hint), SourceRef{set->second});
      state.first_error->key = full;
      return;
    }
    if (const auto place = state.places.find(at); place != state.places.end()) {
      where = place->second;
      break;
    }
    if (at.empty()) break;
    const auto dot = at.rfind('.');
    at = at.substr(0, dot == std::string_view::npos ? 0 : dot);
  }
  state.first_error = bad_input(full + ": " + std::move(message), std::move(hint), where);
  state.first_error->key = full;
}

void TomlTable::refuse(std::string_view key, const Error& error) const {
  refuse(key, error.where ? error.where->text() + ": " + error.message : error.message, error.hint);
}

void TomlTable::require(std::string_view key) const {
  if (!has(key)) refuse(key, "this key is missing");
}

std::optional<std::string> TomlTable::find_text(std::string_view key) const {
  const toml::node* node = node_->find(key);
  if (!node) return std::nullopt;
  if (const auto text = node->value_exact<std::string>()) return text;
  refuse(key, fmt::format("expected text, got {}", kind_of(*node)));
  return std::nullopt;
}

std::optional<std::string> TomlTable::find_text_or_none(std::string_view key) const {
  const toml::node* node = node_->find(key);
  return node ? node->value_exact<std::string>() : std::nullopt;
}

std::string TomlTable::text(std::string_view key) const {
  auto found = find_text(key);
  if (!found) require(key);
  return found.value_or("");
}

std::string TomlTable::text_or(std::string_view key, std::string fallback) const {
  return find_text(key).value_or(std::move(fallback));
}

std::vector<std::string> TomlTable::texts(std::string_view key) const {
  const toml::node* node = node_->find(key);
  if (!node) return {};
  if (const auto one = node->value_exact<std::string>()) return {*one};
  std::vector<std::string> out;
  if (const toml::array* list = node->as_array()) {
    for (const toml::node& item : *list) {
      const auto text = item.value_exact<std::string>();
      if (!text) refuse(key, fmt::format("expected a list of texts, found {}", kind_of(item)));
      out.push_back(text.value_or(""));
    }
    return out;
  }
  refuse(key, fmt::format("expected a list of texts, got {}", kind_of(*node)),
         fmt::format("write {} = [\"...\"]", key));
  return {};
}

std::vector<std::string> TomlTable::values(std::string_view key) const {
  const toml::node* node = node_->find(key);
  if (!node) return {};
  const toml::array* list = node->as_array();
  if (!list) {
    refuse(key, fmt::format("expected a list, got {}", kind_of(*node)));
    return {};
  }
  std::vector<std::string> out;
  for (const toml::node& item : *list) {
    if (!item.is_string() && !item.is_number() && !item.is_boolean()) {
      refuse(key,
             fmt::format("expected a list of texts, numbers or booleans, found {}", kind_of(item)));
      return {};
    }
    std::ostringstream text;
    item.visit([&](const auto& value) { text << value; });
    out.push_back(text.str());
  }
  return out;
}

std::int64_t TomlTable::integer_or(std::string_view key, std::int64_t fallback, std::int64_t lo,
                                   std::int64_t hi) const {
  const toml::node* node = node_->find(key);
  if (!node) return fallback;
  const auto value = node->value_exact<std::int64_t>();
  if (!value) {
    refuse(key, fmt::format("expected a whole number, got {}", kind_of(*node)),
           fmt::format("expected {} to {}", lo, hi));
    return fallback;
  }
  if (*value < lo || *value > hi) {
    refuse(key, fmt::format("{} is out of range", *value),
           fmt::format("expected {} to {}", lo, hi));
    return fallback;
  }
  return *value;
}

std::int64_t TomlTable::integer(std::string_view key, std::int64_t lo, std::int64_t hi) const {
  require(key);
  return integer_or(key, lo, lo, hi);
}

double TomlTable::number_or(std::string_view key, double fallback, double lo, double hi) const {
  const toml::node* node = node_->find(key);
  if (!node) return fallback;
  const auto value = node->is_number() ? node->value<double>() : std::nullopt;
  if (!value) {
    refuse(key, fmt::format("expected a number, got {}", kind_of(*node)));
    return fallback;
  }
  if (!(*value >= lo && *value <= hi)) {
    refuse(key, fmt::format("{} is out of range", *value),
           fmt::format("expected {} to {}", lo, hi));
    return fallback;
  }
  return *value;
}

std::vector<double> TomlTable::numbers(std::string_view key, double lo, double hi) const {
  const toml::node* node = node_->find(key);
  if (!node) return {};
  if (auto out = numbers_of(*node, lo, hi)) return *std::move(out);
  refuse(key, fmt::format("expected a list of numbers from {} to {}", lo, hi),
         "write them as 3,1; in a file as [3, 1]");
  return {};
}

std::vector<std::vector<double>> TomlTable::number_rows(std::string_view key, double lo,
                                                        double hi) const {
  const toml::node* node = node_->find(key);
  std::vector<std::vector<double>> out;
  for (std::size_t i = 0; node && node->is_array() && i < node->as_array()->size(); ++i)
    if (auto row = numbers_of(*node->as_array()->get(i), lo, hi)) out.push_back(*std::move(row));
  if (node && (!node->is_array() || out.size() < node->as_array()->size()))
    refuse(key, fmt::format("expected lists of numbers from {} to {}", lo, hi));
  return out;
}

bool TomlTable::flag(std::string_view key, bool fallback) const {
  const toml::node* node = node_->find(key);
  if (!node) return fallback;
  if (const auto value = node->value_exact<bool>()) return *value;
  refuse(key, fmt::format("expected true or false, got {}", kind_of(*node)));
  return fallback;
}

void TomlTable::refuse_choice(std::string_view key, const std::string& got,
                              const std::vector<std::string>& names) const {
  refuse(key, fmt::format("no such choice: \"{}\"", got),
         fmt::format("choose one of {}", fmt::join(names, ", ")));
}

FigureDefaults TomlTable::provenance() const {
  FigureDefaults out = *node_->defaults;
  out.source = text_or("source", out.source);
  if (const auto kind = find_text("kind")) {
    if (const auto known = source_kind_from(*kind)) {
      out.kind = *known;
    } else {
      refuse_choice("kind", *kind, {"measured", "fitted", "published", "spec", "assumed"});
    }
  }
  find_text("note");
  integer_or("n", 0, 0, 1'000'000'000);
  integer_or("chips", 0, 0, 1'000'000'000);
  number_or("residual", 0, 0, 1e6);
  number_or("spread", 0, 0, 1e6);  // of n takes: largest less smallest, over the median
  finish();
  return out;
}

std::optional<TomlTable::FigureText> TomlTable::figure_text(std::string_view key) const {
  const toml::node* node = node_->find(key);
  if (!node) return std::nullopt;
  if (const auto value = node->value_exact<std::string>())
    return FigureText{*value, *node_->defaults};
  if (!node->is_table()) {
    refuse(key, fmt::format("expected a figure with its unit as text, got {}", kind_of(*node)),
           "write the unit, for example \"24 GiB\" or \"64 GB/s\"");
    return std::nullopt;
  }
  const TomlTable inner = table(key);
  std::string value = inner.text("value");
  return FigureText{std::move(value), inner.provenance()};
}

std::optional<Sourced<std::string>> TomlTable::find_text_figure(std::string_view key) const {
  auto raw = figure_text(key);
  if (!raw) return std::nullopt;
  return Sourced<std::string>{std::move(raw->value), raw->from.kind, raw->from.source};
}

std::optional<Sourced<double>> TomlTable::find_number_figure(std::string_view key, double lo,
                                                             double hi) const {
  const toml::node* node = node_->find(key);
  if (!node) return std::nullopt;
  if (!node->is_table())
    return Sourced<double>{number_or(key, lo, lo, hi), node_->defaults->kind,
                           node_->defaults->source};
  const TomlTable inner = table(key);
  inner.require("value");
  const double value = inner.number_or("value", lo, lo, hi);
  const FigureDefaults from = inner.provenance();
  return Sourced<double>{value, from.kind, from.source};
}

Sourced<double> TomlTable::number_figure(std::string_view key, double lo, double hi) const {
  if (auto found = find_number_figure(key, lo, hi)) return *found;
  require(key);
  return {lo, SourceKind::kAssumed, {}};
}

TomlTable TomlTable::table(std::string_view key) const {
  const toml::node* node = node_->find(key);
  if (node && !node->is_table())
    refuse(key, fmt::format("expected a table, got {}", kind_of(*node)));
  auto child = std::make_shared<Node>();
  child->state = node_->state;
  child->table = node ? node->as_table() : nullptr;
  child->prefix = path(key) + ".";
  child->defaults = node_->defaults;
  return TomlTable(std::move(child));
}

std::vector<TomlTable> TomlTable::tables(std::string_view key) const {
  const toml::node* node = node_->find(key);
  if (!node) return {};
  const toml::array* list = node->as_array();
  if (!list) {
    refuse(key, fmt::format("expected [[{}]] tables, got {}", key, kind_of(*node)));
    return {};
  }
  std::vector<TomlTable> out;
  for (const toml::node& item : *list) {
    if (!item.is_table()) {
      refuse(key, fmt::format("expected [[{}]] tables, found {}", key, kind_of(item)));
      return {};
    }
    auto child = std::make_shared<Node>();
    child->state = node_->state;
    child->table = item.as_table();
    child->prefix = fmt::format("{}[{}].", path(key), out.size());
    child->defaults = node_->defaults;
    out.push_back(TomlTable(std::move(child)));
  }
  return out;
}

void TomlTable::set_figure_defaults(FigureDefaults defaults) const {
  *node_->defaults = std::move(defaults);
}

void TomlTable::finish() const {
  if (!node_->table) return;
  const std::vector<std::string> known(node_->asked.begin(), node_->asked.end());
  for (const std::string& key : keys()) {
    if (node_->asked.contains(key)) continue;
    std::string hint = did_you_mean(key, known);
    if (hint.empty()) hint = fmt::format("known here: {}", fmt::join(known, ", "));
    refuse(key, "unknown key", std::move(hint));
    return;
  }
}

std::string TomlTable::describe(Hertz f) { return fmt::format("{} GHz", f.value / 1e9); }
std::string TomlTable::describe(Watts w) { return fmt::format("{} W", w.value); }
std::string TomlTable::describe(Usd u) { return fmt::format("{} USD", u.value); }

}  // namespace rigcast
