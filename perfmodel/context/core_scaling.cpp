#include "perfmodel/context/core_scaling.hpp"

#include <algorithm>
#include <boost/math/tools/toms748_solve.hpp>
#include <cstdint>

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
  const auto beyond = [&](double saturated) {
    return saturated * bandwidth_share(all, 1.0 / saturated) - speed_of_all;
  };
  double least = speed_of_all, most = 2.0 * speed_of_all;
  while (beyond(most) < 0 && most < 1e6 * all) most *= 2.0;
  if (beyond(most) < 0) return cores;  // hardly saturated by all of them
  if (beyond(least) >= 0) return least * bandwidth_share(cores, 1.0 / least);
  constexpr int kBits = 40;
  std::uintmax_t evaluations = 60;
  const auto [low, high] = boost::math::tools::toms748_solve(
      beyond, least, most, boost::math::tools::eps_tolerance<double>(kBits), evaluations);
  return high * bandwidth_share(cores, 1.0 / high);
}

}  // namespace rigcast
