#pragma once
// A figure that was measured several times.

#include <vector>

namespace rigcast::probe {

struct Samples {
  double median = 0;
  double spread = 0;  // (largest - smallest) / median
  int n = 0;          // 0: not measured
};

Samples samples_of(std::vector<double> values);

}  // namespace rigcast::probe
