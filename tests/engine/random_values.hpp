#pragma once
// Values for tests, the same in every run.

#include <random>
#include <vector>

namespace rigcast::engine::fixtures {

inline std::vector<float> normal_values(std::size_t count, unsigned seed, float deviation = 1.0f) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> values(count);
  for (float& v : values) v = normal(bits);
  return values;
}

}  // namespace rigcast::engine::fixtures
