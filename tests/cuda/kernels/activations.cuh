#pragma once
// Activations on the GPU, and the same as the CPU quantizes them.

#include <vector>

#include "engine/kernels/cpu/quantized_activations.hpp"
#include "engine/kernels/cuda/activations/inputs.cuh"
#include "tests/cuda/device_data.cuh"

namespace rigcast::fixtures {

/// Quantized activations that were read back.
struct RoundedValues {
  std::vector<std::int8_t> q;
  std::vector<float> scale, sum16;
  double value(std::size_t i) const { return double(scale[i / 32]) * double(q[i]); }
};

inline RoundedValues rounded_on_cpu(std::span<const float> x) {
  engine::cpu::QuantizedRow row;
  row.resize(std::int64_t(x.size()));
  engine::cpu::quantize_row(x, row);
  return {{row.q.begin(), row.q.end()},
          {row.scale.begin(), row.scale.end()},
          {row.sum16.begin(), row.sum16.end()}};
}

/// Memory for `columns` quantized activations.
class RoundedOnDevice {
 public:
  explicit RoundedOnDevice(std::size_t columns)
      : q_(columns), scale_(columns / 32), sum16_(columns / 16) {}
  explicit RoundedOnDevice(const RoundedValues& v) : q_(v.q), scale_(v.scale), sum16_(v.sum16) {}

  engine::cuda::QuantizedActivations get() const { return {q_.get(), scale_.get(), sum16_.get()}; }
  RoundedValues read() const { return {q_.read(), scale_.read(), sum16_.read()}; }

 private:
  OnDevice<std::int8_t> q_;
  OnDevice<float> scale_, sum16_;
};

/// Both forms of the same activations.
struct InputOnDevice {
  std::vector<float> x;
  RoundedValues quantized;
  OnDevice<float> floats;
  RoundedOnDevice rounded_there;

  explicit InputOnDevice(const std::vector<float>& values)
      : x(values), quantized(rounded_on_cpu(values)), floats(values), rounded_there(quantized) {}
  engine::cuda::Inputs get() const { return {rounded_there.get(), floats.get()}; }
};

}  // namespace rigcast::fixtures
