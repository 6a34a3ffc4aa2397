#include "core/base/knee.hpp"

#include <algorithm>
#include <limits>
#include <vector>

namespace rigcast {
namespace {

constexpr std::size_t kMinPieces = 3;  // of either line

// Spikes, such as of a graph that is recorded anew, are no part of a trend.
std::vector<double> medians_of(std::span<const double> times, std::size_t piece) {
  std::vector<double> out;
  for (std::size_t begin = 0; begin + piece <= times.size(); begin += piece) {
    std::vector<double> part(times.begin() + std::ptrdiff_t(begin),
                             times.begin() + std::ptrdiff_t(begin + piece));
    std::ranges::nth_element(part, part.begin() + std::ptrdiff_t(piece / 2));
    out.push_back(part[piece / 2]);
  }
  return out;
}

// The line through points (0, y[0]), (1, y[1]), ... that leaves least squares.
struct Line {
  double at_zero = 0, slope = 0, squares = 0;

  explicit Line(std::span<const double> y) {
    const double n = double(y.size()), middle = (n - 1) / 2;
    double mean = 0, xy = 0, xx = 0;
    for (const double v : y) mean += v / n;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double x = double(i) - middle;
      xy += x * (y[i] - mean);
      xx += x * x;
    }
    slope = xy / xx;
    at_zero = mean - slope * middle;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double off = y[i] - at(double(i));
      squares += off * off;
    }
  }
  double at(double x) const { return at_zero + slope * x; }
};

// The number of pieces in the first of the two lines that fit best.
std::size_t split_of(std::span<const double> y) {
  std::size_t best = 0;
  double squares = std::numeric_limits<double>::infinity();
  for (std::size_t i = kMinPieces; i + kMinPieces <= y.size(); ++i) {
    const double both = Line(y.first(i)).squares + Line(y.subspan(i)).squares;
    if (both < squares) squares = both, best = i;
  }
  return best;
}

// The first line as its own pieces have it: of the `pieces` before the second one the last may have
// begun to leave it, and bend it less with every round.
std::size_t on_trend(std::span<const double> y, std::size_t pieces) {
  for (;;) {
    const Line before(y.first(pieces));
    std::size_t kept = pieces;
    while (kept > kMinPieces && y[kept - 1] > before.at(double(kept - 1)) * (1 + kOffTrend)) --kept;
    if (kept == pieces) return kept;
    pieces = kept;
  }
}

}  // namespace

std::optional<Knee> find_knee(std::span<const double> times, std::size_t piece) {
  piece = std::max<std::size_t>(1, piece);
  const std::vector<double> y = medians_of(times, piece);
  if (y.size() < 2 * kMinPieces) return std::nullopt;
  const std::span<const double> all(y);
  const std::size_t split = split_of(all);
  const Line after(all.subspan(split));
  std::size_t kept = on_trend(all, split);
  const Line before(all.first(kept));
  const double promised = before.at(double(y.size() - 1));
  if (y.back() < promised * (1 + kMinFall) || after.slope < before.slope) return std::nullopt;
  // A flat second line may meet the first late.
  while (kept < y.size() && y[kept] <= before.at(double(kept)) * (1 + kOffTrend)) ++kept;
  return Knee{kept * piece - 1, Seconds{y[kept - 1]}, Seconds{y.back()}};
}

}  // namespace rigcast
