#include "cli/sweep/space.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string_view>

namespace rigcast::cli {
namespace {

constexpr std::int64_t kMaxScenarios = 100'000'000;

// Whole numbers alone.
std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "0..32:4" counts up; anything else is itself.
Result<std::vector<std::string>> expand(const std::string& item) {
  const std::size_t dots = item.find("..");
  if (dots == std::string::npos) return std::vector<std::string>{item};
  const std::string_view text = item;
  const std::size_t colon = item.find(':', dots);
  const auto first = number(text.substr(0, dots));
  const auto last =
      number(text.substr(dots + 2, colon == std::string::npos ? colon : colon - dots - 2));
  const auto step =
      colon == std::string::npos ? std::optional<std::int64_t>(1) : number(text.substr(colon + 1));
  if (!first || !last || !step) return std::vector<std::string>{item};
  constexpr std::int64_t kFar = 1'000'000'000'000'000;
  const bool counts = *step >= 1 && *last >= *first && *first > -kFar && *last < kFar;
  if (!counts || (*last - *first) / *step >= 1'000'000)
    return bad_input(fmt::format("\"{}\" counts to nothing, or too far", item),
                     "for example 0..32 or 0..32:4");
  std::vector<std::string> out;
  for (std::int64_t v = *first; v <= *last; v += *step) out.push_back(fmt::format("{}", v));
  return out;
}

// At commas outside of brackets and quotes.
std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> out(1);
  int depth = 0;
  char quote = 0;
  for (const char c : text) {
    if (quote) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && depth <= 0) {
      out.emplace_back();
      continue;
    }
    out.back() += c;
  }
  return out;
}

}  // namespace

Result<SweptKey> parse_swept_key(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    return bad_input(fmt::format("--set {}: expected KEY=VALUE,VALUE,...", text),
                     "for example --set model.quant=Q4_K_M,Q8_0");
  SweptKey key{text.substr(0, equals), {}};
  for (const std::string& item : split(text.substr(equals + 1))) {
    if (item.find_first_not_of(' ') == std::string::npos)
      return bad_input(fmt::format("--set {}: a value is empty", text),
                       "for example --set model.quant=Q4_K_M,Q8_0");
    const auto values = expand(item);
    if (!values) return values.error();
    key.values.insert(key.values.end(), values->begin(), values->end());
  }
  return key;
}

Result<SweepSpace> SweepSpace::make(std::vector<SweptKey> keys) {
  SweepSpace space;
  for (const SweptKey& key : keys) {
    const auto values = std::int64_t(key.values.size());
    if (space.size_ > kMaxScenarios / values)
      return bad_input("more than 100 million scenarios", "fewer values");
    space.size_ *= values;
  }
  space.keys_ = std::move(keys);
  return space;
}

std::vector<std::string> SweepSpace::values(std::int64_t index) const {
  std::vector<std::string> out(keys_.size());
  for (std::size_t i = keys_.size(); i-- > 0;) {
    const auto count = std::int64_t(keys_[i].values.size());
    out[i] = keys_[i].values[std::size_t(index % count)];
    index /= count;
  }
  return out;
}

std::int64_t SweepSpace::size_with(std::size_t key) const {
  return size_ / std::int64_t(keys_[key].values.size());
}

std::int64_t SweepSpace::index_with(std::size_t key, std::int64_t value, std::int64_t i) const {
  std::int64_t inner = 1;  // scenarios between two values of the key
  for (std::size_t k = key + 1; k < keys_.size(); ++k)
    inner *= std::int64_t(keys_[k].values.size());
  const auto count = std::int64_t(keys_[key].values.size());
  return (i / inner * count + value) * inner + i % inner;
}

}  // namespace rigcast::cli
