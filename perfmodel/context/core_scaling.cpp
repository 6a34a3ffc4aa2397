#include "perfmodel/context/core_scaling.hpp"

#include <algorithm>

namespace rigcast {

double bandwidth_share(int cores, double one_core) {
  double share = std::min(1.0, one_core);
  for (int n = 2; n <= cores; ++n)
    share = std::clamp(n / (1.0 / one_core + (n - 1) * share), share, 1.0);
  return share;
}

double speed_of_cores(int cores, int all, double speed_of_all) {
  if (cores >= all) return speed_of_all;
  if (cores <= 1) return 1.0;
  if (speed_of_all >= all) return cores;
  if (speed_of_all <= 1.0) return speed_of_all;
  // The speed at which memory is saturated: no less than that of all cores, and
  // so much more that all of them reach theirs.
  constexpr int kHalvings = 50;
  double least = speed_of_all, most = 2.0 * speed_of_all;
  const auto of_all = [&](double saturated) {
    return saturated * bandwidth_share(all, 1.0 / saturated);
  };
  while (of_all(most) < speed_of_all && most < 1e6 * all) most *= 2.0;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (least + most) / 2.0;
    (of_all(middle) < speed_of_all ? least : most) = middle;
  }
  return most * bandwidth_share(cores, 1.0 / most);
}

}  // namespace rigcast
