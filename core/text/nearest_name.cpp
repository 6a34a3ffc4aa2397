#include "core/text/nearest_name.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <numeric>
#include <vector>

namespace rigcast {
namespace {

// Insertions, deletions, substitutions and swaps of neighbours, each for one.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before.swap(above);
    above.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = above[j - 1] + (a[i - 1] != b[j - 1]);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, substituted});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::string as_id(std::string_view text) {
  std::string id;
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (std::isalnum(u) || c == '.') {
      id += char(std::tolower(u));
    } else if (!id.empty() && id.back() != '-') {
      id += '-';
    }
  }
  while (!id.empty() && id.back() == '-') id.pop_back();
  return id;
}

std::vector<std::string> nearest_names(std::string_view wanted, std::span<const std::string> known,
                                       std::size_t most) {
  const std::string id = as_id(wanted.substr(0, 64));
  std::vector<std::pair<std::size_t, std::string>> ranked;
  for (const std::string& name : known) {
    const std::string candidate = as_id(name);
    std::size_t distance = edit_distance(id, candidate);
    const bool contained = id.size() >= 3 && candidate.find(id) != std::string::npos;
    if (contained) distance = std::min<std::size_t>(distance, 1);
    if (distance <= std::max<std::size_t>(2, id.size() / 3)) ranked.emplace_back(distance, name);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> names;
  for (const auto& [distance, name] : ranked)
    if (names.size() < most) names.push_back(name);
  return names;
}

std::string did_you_mean(std::string_view wanted, std::span<const std::string> known) {
  const auto names = nearest_names(wanted, known);
  return names.empty() ? "" : fmt::format("did you mean {}?", fmt::join(names, ", "));
}

}  // namespace rigcast
