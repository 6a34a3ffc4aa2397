#include "perfmodel/blocks/wave_quantization.hpp"

#include <algorithm>
#include <cmath>

namespace rigcast {
namespace {

// Wave quantization: time relative to a GPU whose units were all busy, for `blocks` thread blocks
// on `units` units.
double stretch(double blocks, double units) { return std::ceil(blocks / units) * units / blocks; }

double blocks_of(double rows, double tokens, const BlockShape& cut) {
  return std::ceil(rows / cut.rows) * std::ceil(tokens / cut.tokens);
}

// The mean over the products, weighted by their elements.
template <class StretchOf>
double mean_stretch(const OpTraffic& t, const StretchOf& stretch_of) {
  double elements = 0, sum = 0;
  for (const ProductShape& p : t.products) {
    if (p.rows == 0) continue;
    elements += double(p.elements);
    sum += double(p.elements) * stretch_of(p);
  }
  return elements > 0 ? sum / elements : 1.0;
}

// Larger blocks are used as long as this share of the units still has one.
constexpr double kNearlyAll = 0.8;

}  // namespace

double wave_efficiency(const OpTraffic& products, double tokens, const BlockShape& cut) {
  if (cut.units <= 0) return 1.0;
  return 1.0 / mean_stretch(products, [&](const ProductShape& p) {
           return stretch(blocks_of(double(p.rows), tokens, cut), cut.units);
         });
}

double wave_efficiency_of_widths(const OpTraffic& products, double tokens, const BlockShape& cut) {
  if (cut.units <= 0) return 1.0;
  const double wide = std::max(1.0, tokens / cut.tokens);
  return 1.0 / mean_stretch(products, [&](const ProductShape& p) {
           return stretch(std::ceil(double(p.rows) / cut.rows) * wide, cut.units);
         });
}

double wave_efficiency_of_largest(const OpTraffic& products, double tokens, const BlockShape& cut) {
  if (cut.units <= 0) return 1.0;
  return 1.0 / mean_stretch(products, [&](const ProductShape& p) {
           BlockShape larger = cut;
           for (const double times : {8, 4, 2, 1}) {
             larger.rows = times * cut.rows;
             const double blocks = blocks_of(double(p.rows), tokens, larger);
             if (times == 1 || blocks >= kNearlyAll * cut.units) return stretch(blocks, cut.units);
           }
           return 1.0;
         });
}

double wave_efficiency_of_blocks(double blocks, double units) {
  if (units <= 0 || blocks <= units) return 1.0;
  return 1.0 / stretch(blocks, 2 * units);
}

double columns_of_groups(double mean, double half, double widest) {
  // The tokens of an expert are Poisson distributed, of which the normal distribution is near
  // enough where there are many.
  const double chosen = 1 - std::exp(-mean);
  if (chosen <= 0) return 8 + half;
  const auto more_than = [&](double tokens) {
    return 0.5 * std::erfc((tokens + 0.5 - mean) / std::sqrt(2 * mean));
  };
  double least = INFINITY;
  for (double width = 8; width <= std::max(8.0, widest); width *= 2) {
    double groups = chosen;
    for (double tokens = width; tokens < mean + 4 * std::sqrt(mean); tokens += width)
      groups += more_than(tokens);
    least = std::min(least, groups / chosen * (width + half));
  }
  return least;
}

double columns_of_parts(double tokens, double share, double most, double half, double widest) {
  const double whole = std::floor(tokens / most), rest = tokens - whole * most;
  double columns = whole > 0 ? whole * columns_of_groups(most * share, half, widest) : 0.0;
  if (rest <= 0) return columns;
  // Of the experts that all tokens choose, the last ones may leave some out.
  const double chosen = whole > 0 ? 1 - std::exp(-rest * share) : 1.0;
  return columns + chosen * columns_of_groups(rest * share, half, widest);
}

double idle_of_one_token(const OpTraffic& products, const BlockShape& cut,
                         double fifth_block_bits) {
  if (cut.units <= 0) return 0.0;
  const double many = kManyRowsOfUnit * cut.units;
  const double in_five = 5.0 / 4 * cut.rows * cut.units;
  const double mean = mean_stretch(products, [&](const ProductShape& p) {
    const auto rows = double(p.rows);
    const bool has_fifth =
        !p.several_formats && info(p.format).bits_per_weight() <= fifth_block_bits;
    if (has_fifth && rows <= in_five) return 1.0;
    const double at_once = (rows >= many ? 2 : 1) * cut.rows * cut.units;
    // With less than one wave, the busy units use the bandwidth that idle ones leave.
    return rows <= at_once ? 1.0 : stretch(rows, at_once);
  });
  return mean - 1.0;
}

}  // namespace rigcast
