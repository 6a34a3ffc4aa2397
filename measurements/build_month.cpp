#include "measurements/build_month.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/text/freetext.hpp"
#include "measurements/parsed_notes.hpp"

namespace rigcast {
namespace {

struct Anchor {
  double build;
  double year;
};

// Builds of llama.cpp whose dates are known, from releases and dated runs; others lie between.
constexpr std::array<Anchor, 11> kAnchors = {{
    {1500, 2023.86},
    {1786, 2024.02},
    {2860, 2024.36},
    {4384, 2024.98},
    {5269, 2025.34},
    {5863, 2025.52},
    {6132, 2025.61},
    {6457, 2025.70},
    {7000, 2025.86},
    {8000, 2026.11},
    {10456, 2026.63},
}};

// "b10456", "6077 (83bc2f28)", "14b699ec (4384)".
std::optional<int> build_number(const std::string& build) {
  for (const char* pattern : {R"(\bb(\d{4,5})\b)", R"(^(\d{4,5}) \()", R"(\((\d{4,5})\))"}) {
    const auto found = freetext::match(build, pattern);
    if (!found.empty()) return std::stoi(found[1]);
  }
  return std::nullopt;
}

std::optional<Month> of_date(const std::string& date) {
  const auto found = freetext::match(date, R"(^(20\d\d)-(\d\d)(?:\D|$))");
  if (found.empty()) return std::nullopt;
  const Month m{std::stoi(found[1]), std::stoi(found[2])};
  if (m.year < 2023 || m.month < 1 || m.month > 12) return std::nullopt;
  return m;
}

}  // namespace

std::optional<Month> month_of_build(int build) {
  if (build < kAnchors.front().build || build > kAnchors.back().build + 1000) return std::nullopt;
  const auto after = std::find_if(kAnchors.begin() + 1, kAnchors.end() - 1,
                                  [&](const Anchor& a) { return a.build >= build; });
  const Anchor& a = *(after - 1);
  const Anchor& b = *after;
  const double year = a.year + (build - a.build) * (b.year - a.year) / (b.build - a.build);
  const int months = int(std::floor(year * 12));
  return Month{months / 12, months % 12 + 1};
}

std::string Month::text() const { return fmt::format("{:04}-{:02}", year, month); }

std::optional<Month> build_month(const Measurement& m) {
  const ParsedNotes parsed_notes = parse_notes(m);
  // A fork counts its own commits.
  if (const auto number = build_number(m.build); number && !parsed_notes.ik_llama)
    if (const auto month = month_of_build(*number)) return month;
  return of_date(m.date);
}

bool default_flash_attention(const Measurement& m) {
  const ParsedNotes parsed_notes = parse_notes(m);
  if (parsed_notes.ollama) return false;
  const auto built = build_month(m);
  const Month switched = parsed_notes.ik_llama ? Month{2025, 11} : Month{2025, 9};
  return !built || *built >= switched;
}

}  // namespace rigcast
