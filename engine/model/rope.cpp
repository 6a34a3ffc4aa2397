#include "engine/model/rope.hpp"

#include <cmath>

namespace rigcast::engine {

std::vector<double> rope_frequencies(const Hyperparameters& hyper, std::span<const float> factors) {
  std::vector<double> out(std::size_t(hyper.rope_dims / 2));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double frequency = std::pow(double(hyper.rope_base), -2.0 * double(i) / hyper.rope_dims);
    const double factor = i < factors.size() ? double(factors[i]) : 1.0;
    out[i] = frequency * double(hyper.rope_scale) / factor;
  }
  return out;
}

Rope::Rope(const Hyperparameters& hyper, std::span<const float> factors)
    : layout_(hyper.rope_pairs), frequencies_(rope_frequencies(hyper, factors)) {}

void Rope::angles(TokenCount position, std::span<float> out) const {
  for (std::size_t i = 0; i < frequencies_.size(); ++i) {
    const double angle = double(position) * frequencies_[i];
    out[2 * i] = float(std::cos(angle));
    out[2 * i + 1] = float(std::sin(angle));
  }
}

void Rope::rotate(std::span<const float> angles, float* head) const {
  const bool neox = layout_ == RopePairs::kNeox;
  const std::size_t n = frequencies_.size();
  for (std::size_t i = 0; i < n; ++i) {
    float& a = neox ? head[i] : head[2 * i];
    float& b = neox ? head[i + n] : head[2 * i + 1];
    const float c = angles[2 * i], s = angles[2 * i + 1], a0 = a;
    a = a0 * c - b * s;
    b = a0 * s + b * c;
  }
}

}  // namespace rigcast::engine
