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
/// Of rates, the time of one: with the same spread. The median is above 0.
Samples inverse(const Samples& rates);

}  // namespace rigcast::probe
