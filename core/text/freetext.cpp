#include "core/text/freetext.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <regex>
#include <unordered_map>

namespace rigcast::freetext {
namespace {

constexpr std::size_t kMaxLength = 500;

using Groups = std::vector<std::string>;

// What patterns found in texts. People's notes are the same for many rows, and are read for each of
// them again, while a search in one takes as long as a step of a forecast.
constexpr std::size_t kMaxTexts = 4096;
std::map<const std::regex*, Groups>& found_in(const std::string& text) {
  static thread_local std::unordered_map<std::string, std::map<const std::regex*, Groups>> known;
  if (known.size() >= kMaxTexts && !known.contains(text)) known.clear();
  return known[text];
}

// Compiling a pattern takes far longer than matching it.
const std::regex& compiled(const char* pattern) {
  static thread_local std::map<std::string, std::regex, std::less<>> known;
  const auto it = known.find(std::string_view(pattern));
  if (it != known.end()) return it->second;
  return known.emplace(pattern, std::regex(pattern, std::regex::icase)).first->second;
}

}  // namespace

std::string clipped(std::string_view text) { return std::string(text.substr(0, kMaxLength)); }

std::string lower(std::string_view text) {
  std::string out = clipped(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return out;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::vector<std::string> match(const std::string& text, const char* pattern) {
  const std::string searched = clipped(text);
  const std::regex& regex = compiled(pattern);
  const auto [groups, is_new] = found_in(searched).try_emplace(&regex);
  std::smatch found;
  if (is_new && std::regex_search(searched, found, regex))
    for (const auto& group : found) groups->second.push_back(group.str());
  return groups->second;
}

std::string replaced(const std::string& text, const char* pattern, const char* with) {
  const std::string out = std::regex_replace(clipped(text), compiled(pattern), with);
  std::string tidy;
  for (const char c : out)
    if (c != ' ' || (!tidy.empty() && tidy.back() != ' ')) tidy += c;
  while (!tidy.empty() && tidy.back() == ' ') tidy.pop_back();
  return tidy;
}

std::optional<double> gib(const std::string& text) {
  const auto found = match(text, R"((\d{1,5})\s*Gi?B\b)");
  if (found.empty()) return std::nullopt;
  return std::stod(found[1]);
}

}  // namespace rigcast::freetext
