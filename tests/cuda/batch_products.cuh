#pragma once
// Products of many tokens in double, and how far those of a batch in integers may be off.

#include "tests/cuda/products.cuh"

namespace rigcast::fixtures {

/// Rounded activations of `tokens` tokens as doubles, and on the GPU.
struct BatchOnDevice {
  std::int64_t columns;
  RoundedValues rounded;
  RoundedOnDevice there;
  std::vector<double> value;

  BatchOnDevice(const std::vector<float>& x, std::int64_t columns_)
      : columns(columns_), rounded(rounded_on_cpu(x)), there(rounded) {
    for (std::size_t i = 0; i < x.size(); ++i) value.push_back(rounded.value(i));
  }
  const double* row(std::size_t token) const { return &value[token * std::size_t(columns)]; }
};

/// A row of weights, which many tokens are multiplied with.
class WeightRow {
 public:
  WeightRow(const Weights& w, std::int64_t row) {
    const std::vector<float> values = w.row(row), zeros = w.row_of_zeros(row);
    for (std::size_t j = 0; j < values.size(); ++j) {
      value_.push_back(double(values[j]));
      // scale * code is w less the value of code 0, which is a term too.
      terms_.push_back(std::abs(double(values[j])) + 2 * std::abs(double(zeros[j])));
    }
  }
  Product times(const double* x) const {
    Product p;
    for (std::size_t j = 0; j < value_.size(); ++j) {
      p.value += value_[j] * x[j];
      p.terms += terms_[j] * std::abs(x[j]);
    }
    return p;
  }

 private:
  std::vector<double> value_, terms_;
};

/// Sums of 32 products are whole numbers below 2^22, which floats hold. From there every term
/// passes so many roundings of 2^-24, relative to the sum of all terms at most: two for each 32
/// columns (a sum, and a min), 8 for the splits of a row, 5 in the term (the scale, both halves,
/// sums of 16 activations and theirs), and 4 for bias, residual and the dequantized reference.
inline double batch_bound(const Product& p, std::int64_t columns) {
  return (2 * std::ceil(double(columns) / 32) + 8 + 5 + 4) * 0x1p-24 * p.terms;
}

/// silu(gate) * up, and how far it may be off.
struct SwiGlu {
  double value = 0, allowed = 0;
};
inline SwiGlu swiglu(const Product& gate, const Product& up, std::int64_t columns) {
  const double silu = gate.value / (1 + std::exp(-gate.value));
  const double g_bound = batch_bound(gate, columns), u_bound = batch_bound(up, columns);
  // silu's slope is below 1.1; expf is off by 2 units, and sum, quotient and product round.
  return {silu * up.value, 1.1 * g_bound * (std::abs(up.value) + u_bound) +
                               std::abs(silu) * u_bound + 8 * 0x1p-24 * std::abs(silu * up.value)};
}

/// How far rounded values are off in units of what is allowed. Every 32 have the scale of their
/// largest, and each is then off by half a scale; sums must be those of what was rounded, to the
/// bit.
inline double worst_of_rounded(const RoundedValues& got, const std::vector<SwiGlu>& expected) {
  double worst = 0;
  for (std::size_t first = 0; first < expected.size(); first += 32) {
    double most = 0, allowed = 0;
    int sums[2] = {};
    const double scale = double(got.scale[first / 32]);
    for (std::size_t i = first; i < first + 32; ++i) {
      most = std::max(most, std::abs(expected[i].value));
      allowed = std::max(allowed, expected[i].allowed);
      sums[i % 32 / 16] += got.q[i];
      // The quotient 127 / most, the product and the scale round: 127 times 2^-24 each.
      const double half = (0.5 + 3 * 127 * 0x1p-24) * scale;
      worst =
          std::max(worst, off(float(got.value(i)), expected[i].value, expected[i].allowed + half));
    }
    worst = std::max(worst, off(float(scale), most / 127, (allowed + most * 0x1p-22) / 127));
    for (std::size_t h = 0; h < 2; ++h)
      if (got.sum16[first / 16 + h] != got.scale[first / 32] * float(sums[h])) worst = INFINITY;
  }
  return worst;
}

}  // namespace rigcast::fixtures
