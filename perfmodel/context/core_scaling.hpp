#pragma once
// How the speed of a CPU grows with the cores that work, where they share the
// memory's bandwidth.

namespace rigcast {

/// Share of a memory's bandwidth that `cores` draw together, of which one draws
/// `one_core`, a share in (0, 1]: the ECM model with latency penalty,
///   u(1) = u1, u(n) = min(1, n / (1/u1 + (n - 1) u(n - 1))), and no less than u(n - 1)
/// The further cores find memory busy for u(n - 1) of the time. Source:
/// Hofmann, Alappat, Hager, Fey and Wellein, "Bridging the architecture gap",
/// 2020, with a penalty of 1.
double bandwidth_share(int cores, double one_core);

/// Speed of `cores` of `all` cores, relative to one, if that of all is
/// `speed_of_all`: linear where all are as fast as so many alone, else
/// bandwidth_share() of the memory for which it agrees with both ends. 1 <=
/// cores <= all; speeds are above 0.
double speed_of_cores(int cores, int all, double speed_of_all);

}  // namespace rigcast
