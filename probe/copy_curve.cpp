#include "probe/copy_curve.hpp"

#include <algorithm>

namespace rigcast::probe {

std::optional<CopyLine> line_through(std::span<const CopyTime> copies) {
  // With y the time and x the size, the sum of ((a + b x - y) / y)^2 is least where
  //   a sum(1/y2) + b sum(x/y2) = sum(1/y)   and   a sum(x/y2) + b sum(x2/y2) = sum(x/y).
  double ones = 0, sizes = 0, squares = 0, right_a = 0, right_b = 0;
  for (const CopyTime& copy : copies) {
    if (!(copy.seconds > 0)) return std::nullopt;
    const double inverse = 1.0 / copy.seconds, x = copy.bytes * inverse;
    ones += inverse * inverse;
    sizes += x * inverse;
    squares += x * x;
    right_a += inverse;
    right_b += x;
  }
  const double determinant = ones * squares - sizes * sizes;
  if (!(determinant > 1e-12 * ones * squares)) return std::nullopt;  // only one size
  const double a = (right_a * squares - right_b * sizes) / determinant;
  const double b = (right_b * ones - right_a * sizes) / determinant;
  if (!(b > 0)) return std::nullopt;
  return CopyLine{std::max(a, 0.0), 1.0 / b};
}

CopyCurve copy_curve(std::span<const std::vector<CopyTime>> passes) {
  CopyCurve curve;
  std::vector<double> latencies, rates;
  for (const std::vector<CopyTime>& pass : passes)
    if (const auto line = line_through(pass)) {
      latencies.push_back(line->latency_s);
      rates.push_back(line->bytes_per_s);
    }
  curve.latency_s = samples_of(latencies);
  curve.bytes_per_s = samples_of(rates);
  const std::size_t sizes = passes.empty() ? 0 : passes.front().size();
  for (std::size_t i = 0; i < sizes; ++i) {
    std::vector<double> seconds;
    for (const std::vector<CopyTime>& pass : passes) seconds.push_back(pass.at(i).seconds);
    curve.points.push_back({passes.front()[i].bytes, samples_of(seconds)});
  }
  return curve;
}

}  // namespace rigcast::probe
