#pragma once
// Activations on the GPU and as the CPU rounds them.

#include <vector>

#include "engine/kernels/cpu/rounded.hpp"
#include "engine/kernels/cuda/activations/inputs.cuh"
#include "tests/cuda/device_data.cuh"

namespace rigcast::fixtures {

/// What is read back of rounded activations.
struct RoundedValues {
  std::vector<std::int8_t> q;
  std::vector<float> scale, sum16;
  double value(std::size_t i) const { return double(scale[i / 32]) * double(q[i]); }
};

inline RoundedValues rounded_on_cpu(std::span<const float> x) {
  engine::cpu::RoundedRow row;
  row.resize(std::int64_t(x.size()));
  engine::cpu::round_row(x, row);
  return {{row.q.begin(), row.q.end()},
          {row.scale.begin(), row.scale.end()},
          {row.sum16.begin(), row.sum16.end()}};
}

/// Room for rounded activations, `columns` in all.
class RoundedOnDevice {
 public:
  explicit RoundedOnDevice(std::size_t columns)
      : q_(columns), scale_(columns / 32), sum16_(columns / 16) {}
  explicit RoundedOnDevice(const RoundedValues& v) : q_(v.q), scale_(v.scale), sum16_(v.sum16) {}

  engine::cuda::Rounded get() const { return {q_.get(), scale_.get(), sum16_.get()}; }
  RoundedValues read() const { return {q_.read(), scale_.read(), sum16_.read()}; }

 private:
  OnDevice<std::int8_t> q_;
  OnDevice<float> scale_, sum16_;
};

/// Both forms of the same activations.
struct InputOnDevice {
  std::vector<float> x;
  RoundedValues rounded;
  OnDevice<float> floats;
  RoundedOnDevice rounded_there;

  explicit InputOnDevice(const std::vector<float>& values)
      : x(values), rounded(rounded_on_cpu(values)), floats(values), rounded_there(rounded) {}
  engine::cuda::Inputs get() const { return {rounded_there.get(), floats.get()}; }
};

}  // namespace rigcast::fixtures
