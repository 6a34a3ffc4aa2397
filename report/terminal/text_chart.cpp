#include "report/terminal/text_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/text/unit_text.hpp"
#include "report/terminal/text_style.hpp"

namespace rigcast {
namespace {

constexpr std::array<std::string_view, 9> kEighths = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::size_t kNumberWidth = 6;

// The least of 1, 1.2, 1.5, 2, ... times a power of ten that covers `value`, so that labels are
// round and the bars still fill the chart.
double round_top(double value) {
  if (!(value > 0) || !std::isfinite(value)) return 1;
  const double power = std::pow(10.0, std::floor(std::log10(value)));
  for (const double step : {1.0, 1.2, 1.6, 2.0, 2.4, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0})
    if (step * power >= value * (1 - 1e-9)) return step * power;
  return 10 * power;
}

double value_at(std::span<const ChartPoint> points, double x) {
  const auto after = std::ranges::upper_bound(points, x, {}, &ChartPoint::x);
  if (after == points.begin()) return points.front().y;
  const ChartPoint& left = *(after - 1);
  if (after == points.end()) return left.y;
  return left.y + (after->y - left.y) * (x - left.x) / (after->x - left.x);
}

struct XAxis {
  double from = 0;
  double to = 1;
  std::size_t columns = 1;

  double at(std::size_t column) const {
    return from + (to - from) * (double(column) + 0.5) / double(columns);
  }
  std::size_t column(double x) const {
    const double c = (x - from) / (to - from) * double(columns);
    return std::size_t(std::clamp(c, 0.0, double(columns - 1)));
  }
};

// A run that begins late gets its own scale; one that begins early is shown from zero.
XAxis x_axis(std::span<const ChartPoint> points, std::size_t columns) {
  const double first = points.front().x;
  const double last = std::max(points.back().x, first + 1);
  return {first < 0.25 * last ? 0.0 : first, last, columns};
}

// Large numbers are shortened, because their zeros would be noise: thousands are "8k".
std::string tick_label(double x) {
  if (x >= 1e6 && std::fmod(x, 1e5) == 0) return fmt::format("{}M", x / 1e6);
  if (x >= 1e4 && std::fmod(x, 1000) == 0) return fmt::format("{:.0f}k", x / 1000);
  return text_count(std::llround(x));
}

double tick_step(const XAxis& axis) {
  const double least = (axis.to - axis.from) / 6;
  const double power = std::pow(10.0, std::floor(std::log10(std::max(least, 1.0))));
  for (const double step : {1.0, 2.0, 5.0})
    if (step * power >= least) return step * power;
  return 10 * power;
}

std::string bar_row(const std::vector<double>& heights, std::size_t row, std::size_t rows) {
  std::string line;
  for (const double height : heights) {
    const double eighths = height * double(rows) * 8 - double(rows - 1 - row) * 8;
    auto level = std::size_t(std::clamp(std::round(eighths), 0.0, 8.0));
    if (row + 1 == rows && height > 0) level = std::max<std::size_t>(level, 1);
    line += kEighths[level];
  }
  return line;
}

void add_x_axis(const XAxis& axis, std::string_view unit, std::size_t margin,
                std::vector<std::string>& lines) {
  std::vector<std::string_view> rule(axis.columns, "─");
  std::string labels(margin, ' ');
  const double step = tick_step(axis);
  for (double x = std::ceil(axis.from / step) * step; x <= axis.to; x += step) {
    const std::size_t column = axis.column(x);
    if (margin + column < text_width(labels) && column > 0) continue;
    rule[column] = "┴";
    labels = pad_right(std::move(labels), margin + column) + tick_label(x) + " ";
  }
  std::string line = std::string(margin - 1, ' ') + "└";
  for (const std::string_view cell : rule) line += cell;
  lines.push_back(line);
  lines.push_back(labels + std::string(unit));
}

}  // namespace

std::vector<std::string> draw_chart(std::span<const ChartPoint> points, const ChartFrame& frame) {
  const XAxis axis = x_axis(points, frame.columns);
  const double top = round_top(std::ranges::max(points, {}, &ChartPoint::y).y);
  std::vector<double> heights;
  for (std::size_t c = 0; c < frame.columns; ++c) {
    const double x = axis.at(c);
    // Nothing was decoded before the first point, but half a column of it would look like a gap.
    const bool empty = c < axis.column(points.front().x);
    heights.push_back(empty ? 0.0 : value_at(points, x) / top);
  }
  const std::size_t unit_width = 2 + text_width(frame.y_unit);
  const std::size_t margin = unit_width + kNumberWidth + 3;
  std::vector<std::string> lines;
  for (std::size_t row = 0; row < frame.rows; ++row) {
    const bool labelled = row == 0 || 2 * row == frame.rows;
    const double edge = top * double(frame.rows - row) / double(frame.rows);
    const std::string unit = row == 0 ? "  " + std::string(frame.y_unit) : "";
    lines.push_back(pad_right(unit, unit_width) +
                    pad_left(labelled ? three_digits(edge) : "", kNumberWidth + 1) + " │" +
                    bar_row(heights, row, frame.rows));
  }
  add_x_axis(axis, frame.x_unit, margin, lines);
  return lines;
}

std::string draw_bar(std::span<const BarSegment> segments, double capacity, std::size_t cells,
                     std::string_view over) {
  double sum = 0;
  for (const BarSegment& s : segments) sum += std::max(s.amount, 0.0);
  const double whole = std::max({capacity, sum, 1e-300});
  const auto cell = [&](double amount) {
    return std::size_t(std::lround(std::clamp(amount / whole, 0.0, 1.0) * double(cells)));
  };
  std::vector<std::string_view> bar(cells, " ");
  std::size_t drawn = 0;
  double amount = 0;
  for (const BarSegment& s : segments) {
    amount += std::max(s.amount, 0.0);
    std::size_t end = cell(amount);
    if (s.amount / whole > 0.002) end = std::max(end, drawn + 1);  // small, but there
    for (; drawn < std::min(end, cells); ++drawn) bar[drawn] = s.glyph;
  }
  if (sum > capacity)
    for (std::size_t c = std::min(cell(capacity), cells - 1); c < cells; ++c) bar[c] = over;
  std::string line;
  for (const std::string_view glyph : bar) line += glyph;
  return line;
}

}  // namespace rigcast
