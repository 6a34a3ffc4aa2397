#pragma once
// What the cores multiply in a second, from registers.

#include <span>

#include "engine/threads/team.hpp"
#include "probe/takes.hpp"

namespace rigcast::probe {

/// A loop over one instruction.
struct CpuLoop {
  const char* name;
  double operations;  // of a run, on one thread; a multiply-add counts as two
  void (*run)();
};
/// The best instruction for 8-bit products with 32-bit sums, then F32 multiply-adds. Empty where no
/// instructions of the CPU are known.
std::span<const CpuLoop> cpu_loops();

/// FLOPs/s of the whole team in these loops, and cycles/s of each of its threads while all of them
/// work: two that share a core have a clock each. n is 0 where there are none.
struct CpuRates {
  Takes int8, fp32, clock;
  // Of one thread by itself, which shares no core, were its clock that one: the most of several
  // processors, not the median.
  Takes core_int8;
};

CpuRates cpu_rates(engine::Team& team);

}  // namespace rigcast::probe
