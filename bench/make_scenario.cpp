// The time to make a scenario: the first one, and later ones, for which the catalogue has its files
// in memory. Sweeps, plans and comparisons make one for every candidate.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "core/base/quantile.hpp"
#include "core/catalogue/catalogue.hpp"
#include "core/scenario/scenario.hpp"
#include "tests/sim/scenario_fixtures.hpp"

using namespace rigcast;

namespace {

constexpr double kBarMs = 1.0;
constexpr int kRepeats = 51;

double milliseconds(const TomlDocument& document, const Catalogue& catalogue) {
  const auto begin = std::chrono::steady_clock::now();
  const auto made = make_scenario(document, catalogue);
  const auto end = std::chrono::steady_clock::now();
  if (!made) throw std::runtime_error(made.error().text());
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

}  // namespace

int main() {
  const auto document = TomlDocument::parse(fixtures::kSmallRig, "bench/make_scenario");
  if (!document) return 1;
  std::vector<double> cold, warm;
  const Catalogue kept(RIGCAST_SOURCE_DIR);
  milliseconds(*document, kept);
  for (int i = 0; i < kRepeats; ++i) {
    cold.push_back(milliseconds(*document, Catalogue(RIGCAST_SOURCE_DIR)));
    warm.push_back(milliseconds(*document, kept));
  }
  fmt::print(
      "make_scenario: {:.3f} ms with files to read, {:.3f} ms without (bar {} ms), {:.1f} x\n",
      median(cold), median(warm), kBarMs, median(cold) / median(warm));
  return median(warm) <= kBarMs ? 0 : 1;
}
