#pragma once
// Products in double of the kernels' inputs, and tolerances of F32.

#include <algorithm>
#include <cmath>

#include "tests/cuda/kernels/activations.cuh"
#include "tests/cuda/kernels/weights.cuh"

namespace rigcast::fixtures {

inline bool needs_floats(QuantFormat f) {
  return f == QuantFormat::kF32 || f == QuantFormat::kF16 || f == QuantFormat::kBF16;
}

struct Product {
  double value = 0;
  double terms = 0;  // sum of the magnitudes that kernels add up
};

/// Row `i` of `w` times the activations as kernels see them: rounded, or floats. x(j): column j.
template <class X>
Product product(const Weights& w, std::int64_t i, X x) {
  const std::vector<float> row = w.row(i), zeros = w.row_of_zeros(i);
  Product p;
  for (std::size_t j = 0; j < row.size(); ++j) {
    p.value += double(row[j]) * x(j);
    // scale * code is w minus the value of code 0, which is a separate term.
    p.terms += (std::abs(double(row[j])) + 2 * std::abs(double(zeros[j]))) * std::abs(x(j));
  }
  return p;
}
inline Product product(const Weights& w, std::int64_t i, const InputOnDevice& x) {
  return product(w, i, [&](std::size_t j) {
    return needs_floats(w.format) ? double(x.x[j]) : x.quantized.value(j);
  });
}

/// The number of roundings of a term, each 2^-24 relative to the sum of all terms at most: one for
/// each addition of a lane, which has 1/32 of the columns (a term each, or two for 16 columns or
/// more), 5 of its warp, 8 in the term (scales, mins, products, the sum of 16 activations), and 3
/// for bias, residual and the rounding of the dequantized reference.
inline double roundings(QuantFormat f, std::int64_t columns) {
  const double additions =
      needs_floats(f) ? double(columns) / 32 : 2 * std::ceil(double(columns) / 512);
  return additions + 5 + 8 + 3;
}
inline double bound(const Product& p, QuantFormat f, std::int64_t columns) {
  return roundings(f, columns) * 0x1p-24 * p.terms;
}

/// The error of `got` in units of the tolerance; above 1 is wrong. NaN is infinitely wrong.
inline double off(float got, double expected, double allowed) {
  const double difference = std::abs(double(got) - expected);
  if (difference == 0) return 0;
  return difference / allowed >= 0 ? difference / allowed : INFINITY;
}

/// The sum of a product and a bias.
template <class AnyProduct>
AnyProduct plus(AnyProduct product, float bias) {
  product.value += double(bias);
  product.terms += std::abs(double(bias));
  return product;
}

}  // namespace rigcast::fixtures
