#pragma once
// The time of copies as a function of their size, and the line through it.

#include <optional>
#include <span>
#include <vector>

#include "probe/samples.hpp"

namespace rigcast::probe {

/// One copy of one size, from the call until the host knows that it is done.
struct CopyTime {
  double bytes = 0;
  double seconds = 0;
};

/// seconds = latency + bytes / rate
struct CopyLine {
  double latency_s = 0;
  double bytes_per_s = 0;
};
/// A least-squares fit of relative deviations, so that small copies count as much as large ones.
/// nullopt: fewer than two sizes, or times that do not grow with the size.
std::optional<CopyLine> line_through(std::span<const CopyTime> copies);

/// Copies in one direction between the host and a GPU.
struct CopyCurve {
  struct Point {
    double bytes = 0;
    Samples seconds;
  };
  std::vector<Point> points;
  Samples latency_s, bytes_per_s;  // parameters of the line through each pass over the sizes
};
/// The curve from several passes over the same sizes.
CopyCurve copy_curve(std::span<const std::vector<CopyTime>> passes);

}  // namespace rigcast::probe
