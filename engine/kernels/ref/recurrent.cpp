#include "engine/kernels/ref/recurrent.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/error.hpp"

namespace rigcast::engine::ref {

float softplus(float x) {
  return float(std::max(double(x), 0.0) + std::log1p(std::exp(-std::abs(double(x)))));
}

std::vector<float> convolve(std::span<const float> taps, std::span<const float> x,
                            std::vector<float>& before) {
  const std::size_t width = x.size(), kernel = taps.size() / width;
  RIGCAST_ASSERT(before.size() == (kernel - 1) * width);
  std::vector<float> out(width);
  before.insert(before.end(), x.begin(), x.end());
  for (std::size_t i = 0; i < width; ++i) {
    double sum = 0;
    for (std::size_t t = 0; t < kernel; ++t)
      sum += double(taps[i * kernel + t]) * double(before[t * width + i]);
    out[i] = float(sum);
  }
  before.erase(before.begin(), before.begin() + std::ptrdiff_t(width));
  return out;
}

void delta_rule(std::span<float> state, std::span<const float> query, std::span<const float> key,
                std::span<const float> value, DeltaGates gates, float scale, std::span<float> out) {
  const std::size_t width = key.size();
  RIGCAST_ASSERT(state.size() == value.size() * width);
  for (std::size_t v = 0; v < value.size(); ++v) {
    const std::span<float> row = state.subspan(v * width, width);
    double known = 0, sum = 0;
    for (std::size_t i = 0; i < width; ++i) known += double(row[i]) * double(key[i]);
    const double old = gates.replaces ? double(gates.decay) * known : 0;
    const double change = double(gates.part) * (double(value[v]) - old);
    for (std::size_t i = 0; i < width; ++i) {
      const double now = double(gates.decay) * double(row[i]) + change * double(key[i]);
      row[i] = float(now);
      sum += now * double(query[i]);
    }
    out[v] = float(sum * double(scale));
  }
}

void normalise(std::span<float> x, float eps) {
  double squares = 0;
  for (const float v : x) squares += double(v) * double(v);
  const double length = std::max(std::sqrt(squares), double(eps));
  for (float& v : x) v = float(double(v) / length);
}

}  // namespace rigcast::engine::ref
