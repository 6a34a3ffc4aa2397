#pragma once
// Charts of block characters for terminals.

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rigcast {

struct ChartPoint {
  double x = 0;
  double y = 0;
};

struct ChartFrame {
  std::string_view y_unit = "tok/s";
  std::string_view x_unit = "tokens";
  std::size_t columns = 52;
  std::size_t rows = 4;
};

/// Bars from zero over an x axis with its labels: `rows` + 2 lines of one margin. `points` by
/// ascending x, at least two; two with the same x are a step.
std::vector<std::string> draw_chart(std::span<const ChartPoint> points, const ChartFrame& frame);

struct BarSegment {
  double amount = 0;
  std::string_view glyph;
};

/// The segments side by side on a scale of `whole` cells for `capacity`. What does not fit into the
/// capacity is shown by `over`, and then the scale is that of the sum.
std::string draw_bar(std::span<const BarSegment> segments, double capacity, std::size_t cells,
                     std::string_view over = "×");

}  // namespace rigcast
