#include "measurements/serving/result_json.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace rigcast {
namespace {

using Json = nlohmann::json;

const Json kNothing = Json::object();

constexpr int kMaxDepth = 64;

SourceRef place(const ResultText& source, std::size_t at) {
  at = std::min(at, source.text.size());
  const std::string_view before = source.text.substr(0, at);
  const auto newline = before.rfind('\n');
  const std::size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
  return {source.file, source.line + int(std::ranges::count(before, '\n')), int(at - begin) + 1};
}

// The end of the string that begins at `at`, behind its closing quote.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size(); ++at) {
    if (text[at] == '\\')
      ++at;
    else if (text[at] == '"')
      return at + 1;
  }
  return text.size();
}

// Replaces what JSON has not by texts of as many bytes, so that places stay.
Result<std::string> without_non_finite(const ResultText& source) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"-Infinity", "\"-inf\"   "}, {"Infinity", "\"inf\"   "}, {"NaN", "\"\" "}};
  std::string out(source.text);
  int depth = 0;
  for (std::size_t i = 0; i < out.size();) {
    const char c = out[i];
    if (c == '"') {
      i = end_of_string(out, i);
      continue;
    }
    depth += (c == '{' || c == '[') - (c == '}' || c == ']');
    if (depth > kMaxDepth) return bad_input("nested too deeply", {}, place(source, i));
    for (const auto& [word, text] : kWords)
      if (out.compare(i, word.size(), word) == 0) out.replace(i, word.size(), text);
    if (out[i] != '"') ++i;
  }
  return out;
}

// The line of what is along these keys in a text that is valid JSON; that of the whole if there is
// none.
class Locator {
 public:
  Locator(std::string_view text, const std::vector<std::string>& path) : text_(text), path_(path) {}

  std::size_t place() {
    for (std::size_t i = 0; i < text_.size();) {
      const char c = text_[i];
      if (c == '"') {
        const std::size_t end = end_of_string(text_, i);
        if (is_key(end))
          levels_.back() = std::string(text_.substr(i + 1, end - i - 2));
        else if (levels_ == path_)
          return i;
        i = end;
        continue;
      }
      if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ':') {
        ++i;
        continue;
      }
      if (c == ',') {
        if (!lists_.empty() && lists_.back() >= 0) levels_.back() = std::to_string(++lists_.back());
      } else if (c == '}' || c == ']') {
        if (levels_.empty()) return 0;
        levels_.pop_back();
        lists_.pop_back();
      } else if (levels_ == path_) {
        return i;
      } else if (c == '{' || c == '[') {
        lists_.push_back(c == '[' ? 0 : -1);
        levels_.push_back(c == '[' ? "0" : "");
      }
      ++i;
    }
    return 0;
  }

 private:
  // A string is a key if a colon follows.
  bool is_key(std::size_t end) const {
    const auto next = text_.find_first_not_of(" \t\r\n", end);
    return !levels_.empty() && next != std::string_view::npos && text_[next] == ':';
  }

  std::string_view text_;
  const std::vector<std::string>& path_;
  std::vector<std::string> levels_;  // keys, and places in lists
  std::vector<int> lists_;           // the place; -1: an object
};

}  // namespace

Result<Json> parse_result_json(const ResultText& source) {
  const auto text = without_non_finite(source);
  if (!text) return text.error();
  try {
    return Json::parse(*text);
  } catch (const Json::parse_error& e) {
    const std::size_t at = e.byte > 0 ? e.byte - 1 : 0;
    const bool ends = at >= text->size();
    return bad_input(
        ends ? "this JSON ends early" : "this is no JSON",
        ends ? "the benchmark was interrupted, or the file was not copied as a whole" : "",
        place(source, at));
  } catch (const Json::exception&) {
    return bad_input("this JSON holds a number out of range", {}, place(source, 0));
  }
}

ResultObject::ResultObject(const Json& json, const ResultText& source)
    : json_(&json), source_(source), error_(std::make_shared<std::optional<Error>>()) {}

ResultObject::ResultObject(const ResultObject& parent, const Json& json, std::string key)
    : json_(&json), source_(parent.source_), path_(parent.path_), error_(parent.error_) {
  path_.push_back(std::move(key));
}

const Json* ResultObject::find(std::string_view key) const {
  if (!json_->is_object()) return nullptr;
  const auto it = json_->find(key);
  return it == json_->end() || it->is_null() ? nullptr : &*it;
}

void ResultObject::refuse(std::string_view key, std::string message, std::string hint) const {
  if (*error_) return;
  std::vector<std::string> path = path_;
  path.emplace_back(key);
  const std::size_t at = Locator(source_.text, path).place();
  *error_ = bad_input(fmt::format("{}: {}", fmt::join(path, "."), message), std::move(hint),
                      place(source_, at));
}

bool ResultObject::has(std::string_view key) const { return find(key) != nullptr; }

ResultObject ResultObject::object(std::string_view key) const {
  const Json* found = find(key);
  if (found && !found->is_object()) {
    refuse(key, "expected an object");
    found = nullptr;
  }
  return {*this, found ? *found : kNothing, std::string(key)};
}

ResultObject ResultObject::at(std::initializer_list<std::string_view> keys) const {
  ResultObject out = *this;
  for (const std::string_view key : keys) out = out.object(key);
  return out;
}

std::vector<ResultObject> ResultObject::objects(std::string_view key) const {
  std::vector<ResultObject> out;
  const Json* found = find(key);
  if (!found) return out;
  if (!found->is_array()) refuse(key, "expected a list");
  const ResultObject list(*this, *found, std::string(key));
  for (std::size_t i = 0; found->is_array() && i < found->size(); ++i) {
    if (!(*found)[i].is_object()) list.refuse(std::to_string(i), "expected an object");
    out.push_back({list, (*found)[i], std::to_string(i)});
  }
  return out;
}

std::optional<double> ResultObject::checked(std::string_view key, const Json& value,
                                            double most) const {
  if (value.is_string() && value.get_ref<const std::string&>().empty()) return std::nullopt;
  if (!value.is_number()) {
    refuse(key, "expected a number");
    return std::nullopt;
  }
  const double number = value.get<double>();
  if (number >= 0 && number <= most) return number;
  refuse(key, fmt::format("{:g} is not from 0 to {:g}", number, most));
  return std::nullopt;
}

std::optional<double> ResultObject::number(std::string_view key, double most) const {
  const Json* found = find(key);
  return found ? checked(key, *found, most) : std::nullopt;
}

std::optional<double> ResultObject::number_or_infinity(std::string_view key, double most) const {
  const Json* found = find(key);
  if (found && found->is_string() && found->get_ref<const std::string&>() == "inf")
    return std::numeric_limits<double>::infinity();
  return number(key, most);
}

std::optional<int> ResultObject::integer(std::string_view key, int most) const {
  const auto found = number(key, most);
  return found ? std::optional(int(std::lround(*found))) : std::nullopt;
}

std::string ResultObject::text(std::string_view key) const {
  const Json* found = find(key);
  if (found && found->is_array()) found = found->empty() ? nullptr : &found->front();
  return found && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<bool> ResultObject::flag(std::string_view key) const {
  const Json* found = find(key);
  if (!found) return std::nullopt;
  if (found->is_boolean()) return found->get<bool>();
  const auto value = number(key, 1);
  return value ? std::optional(*value > 0) : std::nullopt;
}

std::vector<double> ResultObject::numbers(std::string_view key, double most) const {
  std::vector<double> out;
  const Json* found = find(key);
  if (!found) return out;
  if (!found->is_array()) refuse(key, "expected a list");
  for (std::size_t i = 0; found->is_array() && i < found->size(); ++i)
    out.push_back(checked(key, (*found)[i], most).value_or(0));
  return out;
}

}  // namespace rigcast
