#pragma once
// What the cores multiply in a second, from registers.

#include "engine/runtime/team.hpp"
#include "probe/takes.hpp"

namespace rigcast::probe {

/// FLOPs/s of the whole team, a multiply-add counted as two: the best instruction for 8-bit
/// products with 32-bit sums, and F32 multiply-adds. n is 0 where no instructions of the CPU are
/// known.
struct CpuRates {
  Takes int8, fp32;
};

CpuRates cpu_rates(engine::Team& team);

}  // namespace rigcast::probe
