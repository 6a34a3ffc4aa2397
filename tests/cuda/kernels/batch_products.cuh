#pragma once
// Products of many tokens in double, and tolerances of products with FP16 weights.

#include <cuda_fp16.h>

#include "engine/kernels/ref/half.hpp"
#include "tests/cuda/kernels/gates.cuh"
#include "tests/cuda/kernels/products.cuh"

namespace rigcast::fixtures {

/// Activations of tokens, as FP16 on the GPU and as doubles.
struct BatchOnDevice {
  std::int64_t columns;
  std::vector<std::uint16_t> fp16;
  OnDevice<std::uint16_t> there;
  std::vector<double> value;

  BatchOnDevice(const std::vector<float>& x, std::int64_t columns_)
      : columns(columns_), fp16(rounded_to_fp16(x)), there(fp16) {
    for (const std::uint16_t h : fp16) value.push_back(double(engine::ref::half_to_float(h)));
  }
  const __half* get() const { return reinterpret_cast<const __half*>(there.get()); }
  const double* row(std::size_t token) const { return &value[token * std::size_t(columns)]; }

 private:
  static std::vector<std::uint16_t> rounded_to_fp16(const std::vector<float>& x) {
    std::vector<std::uint16_t> out;
    for (const float v : x) out.push_back(engine::ref::float_to_half(v));
    return out;
  }
};

/// A product of many tokens, and the magnitudes on which the tolerance for its weights' rounding
/// depends.
struct BatchProduct : Product {
  double inputs = 0;  // sum of the magnitudes of the activations
};

/// A row of weights, which many tokens are multiplied with.
class WeightRow {
 public:
  WeightRow(const Weights& w, std::int64_t row) {
    const std::vector<float> values = w.row(row), zeros = w.row_of_zeros(row);
    for (std::size_t j = 0; j < values.size(); ++j) {
      value_.push_back(double(values[j]));
      // scale * code is w minus the value of code 0, which is a separate term.
      terms_.push_back(std::abs(double(values[j])) + 2 * std::abs(double(zeros[j])));
    }
  }
  BatchProduct times(const double* x) const {
    BatchProduct p;
    for (std::size_t j = 0; j < value_.size(); ++j) {
      p.value += value_[j] * x[j];
      p.terms += terms_[j] * std::abs(x[j]);
      p.inputs += std::abs(x[j]);
    }
    return p;
  }

 private:
  std::vector<double> value_, terms_;
};

/// Tolerance of FP16 weights. A weight is scale * code + min: scale, min and the result are each
/// rounded by 2^-11; the magnitudes of scale * code, of the min and of the weight are at most twice
/// its `terms`. FP16 numbers below 2^-14 are off by 2^-25: a scale as many times as its code, 127
/// at most (IQ4_XS). Sums in F32 are as for cuBLAS: truncated by 2^-23 for each product. 16 more
/// for sums of blocks, bias and residual.
inline double batch_bound(const BatchProduct& p, std::int64_t columns) {
  const double of_terms = 0x1p-10 * (1 + 0x1p-9) + (double(columns) + 16) * 0x1p-23;
  return of_terms * p.terms + (127 + 2) * 0x1p-25 * p.inputs;
}

/// function(gate) * up as FP16, clamped, and its tolerance.
struct GatedUp {
  double value = 0, allowed = 0;
};
inline GatedUp gated_up(const BatchProduct& gate, const BatchProduct& up, std::int64_t columns,
                        engine::cuda::GateFunction function = engine::cuda::GateFunction::kSilu) {
  const double allowed = gate_times_bound(gate.value, up.value, batch_bound(gate, columns),
                                          batch_bound(up, columns), function);
  const double value = std::clamp(gate_times_up(gate.value, up.value, function), -65504.0, 65504.0);
  return {value, allowed + 0x1p-11 * (std::abs(value) + allowed) + 0x1p-25};
}

inline double worst_of(const std::vector<std::uint16_t>& got,
                       const std::vector<GatedUp>& expected) {
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    worst = std::max(
        worst, off(engine::ref::half_to_float(got[i]), expected[i].value, expected[i].allowed));
  return worst;
}

}  // namespace rigcast::fixtures
