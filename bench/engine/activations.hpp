#pragma once
// Activations for benchmarks: neither zeros nor all equal.

#include <cstdint>
#include <vector>

namespace rigcast::bench {

inline std::vector<float> activations(std::int64_t n, std::uint32_t seed) {
  std::vector<float> x;
  x.reserve(std::size_t(n));
  for (std::int64_t i = 0; i < n; ++i) {
    seed = seed * 1664525u + 1013904223u;
    x.push_back(float(seed >> 8) * 0x1p-23f - 1.0f);
  }
  return x;
}

}  // namespace rigcast::bench
