#include "cli/ui/questions.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/catalogue/entries.hpp"
#include "core/text/toml_of_json.hpp"
#include "http/json_body.hpp"

namespace rigcast::cli {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 16;
constexpr std::size_t kMaxPositions = 64, kMaxRigs = 32, kMaxModels = 4;
constexpr std::string_view kCatalogue = "/api/catalogue/";

Error at(const std::string& key, std::string message, std::string hint = {}) {
  Error error = bad_input(fmt::format("{}: {}", key, message), std::move(hint));
  error.key = key;
  return error;
}

// The members of a question become arguments, each once.
class QuestionReader {
 public:
  QuestionReader(json body, std::vector<std::string> words)
      : body_(std::move(body)), words_(std::move(words)) {}

  void scenario();
  void number(const char* key, const char* flag);
  void text(const char* key, const char* flag);
  void names(const char* key, const char* flag, std::size_t most);
  void positions();
  void prices();
  /// The flag stands for the value that is not the usual one.
  void flag(const char* key, const char* flag, bool usual);
  void wishes();

  Result<std::vector<std::string>> take();

 private:
  const json* member(const char* key);
  void refuse(Error error) {
    if (!error_) error_ = std::move(error);
  }
  void add(std::string flag, const std::string& value) {
    words_.push_back(std::move(flag) + "=" + value);  // so that a value is never taken for a flag
  }

  json body_;
  std::vector<std::string> words_, known_;
  std::optional<Error> error_;
};

const json* QuestionReader::member(const char* key) {
  known_.emplace_back(key);
  const auto found = body_.find(key);
  return found == body_.end() ? nullptr : &*found;
}

void QuestionReader::scenario() {
  const json* scenario = member("scenario");
  if (!scenario || !scenario->is_object())
    return refuse(at("scenario", "expected an object",
                     R"({"scenario": {"rig": {...}, "model": {...}}}: the keys of a scenario)"));
  for (const auto& [table, keys] : scenario->items()) {
    if (!is_scenario_key(table) || !keys.is_object())
      return refuse(at("scenario", "expected tables of a scenario with their keys"));
    for (const auto& [key, value] : keys.items()) {
      const std::string name = table + "." + key;
      const auto text = is_scenario_key(key) ? toml_of_json(value) : std::nullopt;
      if (!text) return refuse(at(is_scenario_key(key) ? name : table, "no value of a scenario"));
      if (name == "model.name" && std::ranges::count(*text, ',') >= std::ptrdiff_t(kMaxModels))
        return refuse(at(name, fmt::format("at most {} models", kMaxModels)));
      add("--set", name + "=" + *text);
    }
  }
}

void QuestionReader::number(const char* key, const char* flag) {
  const json* value = member(key);
  if (!value) return;
  if (!value->is_number()) return refuse(at(key, "expected a number"));
  add(flag, value->dump());
}

void QuestionReader::text(const char* key, const char* flag) {
  const json* value = member(key);
  if (!value) return;
  if (!value->is_string()) return refuse(at(key, "expected a text"));
  add(flag, value->get<std::string>());
}

void QuestionReader::names(const char* key, const char* flag, std::size_t most) {
  const json* value = member(key);
  if (!value) return;
  std::vector<std::string> items;
  const bool is_list = value->is_array() && !value->empty() && value->size() <= most;
  if (is_list)
    for (const json& item : *value)
      if (item.is_string()) items.push_back(item.get<std::string>());
  if (!is_list || items.size() != value->size())
    return refuse(at(key, fmt::format("expected a list of names, {} at most", most)));
  add(flag, fmt::format("{}", fmt::join(items, ",")));
}

void QuestionReader::positions() {
  const json* value = member("positions");
  if (!value) return;
  const auto is_position = [](const json& item) { return item.is_number_unsigned(); };
  if (!value->is_array() || value->empty() || value->size() > kMaxPositions ||
      !std::ranges::all_of(*value, is_position))
    return refuse(at("positions",
                     fmt::format("expected a list of whole numbers, {} at most", kMaxPositions)));
  std::vector<std::string> items;
  for (const json& item : *value) items.push_back(item.dump());
  add("--positions", fmt::format("{}", fmt::join(items, ",")));
}

void QuestionReader::prices() {
  const json* value = member("prices");
  if (!value) return;
  if (!value->is_object() || value->size() > kMaxRigs)
    return refuse(at("prices", R"(expected {"PART": USD})"));
  for (const auto& [part, usd] : value->items()) {
    if (!usd.is_number()) return refuse(at("prices", "expected USD, as a number"));
    add("--price", part + "=" + usd.dump());
  }
}

void QuestionReader::flag(const char* key, const char* flag, bool usual) {
  const json* value = member(key);
  if (value && !value->is_boolean()) return refuse(at(key, "expected true or false"));
  const bool said = value ? value->get<bool>() : false;
  if (said != usual) words_.emplace_back(flag);
}

void QuestionReader::wishes() {
  number("min_tps", "--min-tps");
  number("max_loss", "--max-loss");
  text("max_ttft", "--max-ttft");
  text("objective", "--objective");
}

Result<std::vector<std::string>> QuestionReader::take() {
  for (const auto& [key, value] : body_.items())
    if (std::ranges::find(known_, key) == known_.end())
      refuse(at("body", "a member that no question of this kind has",
                fmt::format("known are {}", fmt::join(known_, ", "))));
  for (const std::string& word : words_)
    if (word.find('\0') != std::string::npos) refuse(bad_input("a text with a zero in it"));
  if (error_) return *error_;
  return std::move(words_);
}

struct Kind {
  std::string_view path;
  std::string_view verb;
  bool is_long;
  std::function<void(QuestionReader&)> read;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"/api/forecast", "simulate", false,
       [](QuestionReader& q) {
         q.positions();
         q.flag("by_context", "--by-context", false);
         q.flag("timelines", "--timelines", false);
         q.flag("advice", "--no-advice", true);
       }},
      {"/api/plan", "plan", true, [](QuestionReader& q) { q.wishes(); }},
      {"/api/compare", "compare", true,
       [](QuestionReader& q) {
         q.wishes();
         q.names("rigs", "--rigs", kMaxRigs);
         q.names("gpus", "--gpus", kMaxRigs);
         q.text("base", "--base");
         q.number("budget", "--budget");
         q.prices();
       }},
      {"/api/capacity", "capacity", true,
       [](QuestionReader& q) { q.flag("advice", "--no-advice", true); }},
  };
  return all;
}

const Kind* kind_of(std::string_view path) {
  const auto found = std::ranges::find(kinds(), path, &Kind::path);
  return found == kinds().end() ? nullptr : &*found;
}

std::string_view list_of(std::string_view path) {
  const std::string_view name = path.starts_with(kCatalogue) ? path.substr(kCatalogue.size()) : "";
  return std::ranges::find(listings(), name) == listings().end() ? "" : name;
}

}  // namespace

bool takes_question(std::string_view path) { return kind_of(path); }

bool is_question(std::string_view path) { return path == "/api/machine" || !list_of(path).empty(); }

Result<Question> read_question(std::string_view path, std::string_view body) {
  if (path == "/api/machine") return Question{{"show", "this", "--format", "json"}};
  if (const auto list = list_of(path); !list.empty())
    return Question{{"list", std::string(list), "--format", "json"}};
  auto parsed = parse_json_body(body, kMaxDepth);
  if (!parsed) return parsed.error();
  const Kind& kind = *kind_of(path);
  QuestionReader reader(*std::move(parsed), {std::string(kind.verb), "--format", "json"});
  reader.scenario();
  kind.read(reader);
  auto words = reader.take();
  if (!words) return words.error();
  return Question{*std::move(words), kind.is_long};
}

}  // namespace rigcast::cli
