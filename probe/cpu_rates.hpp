#pragma once
// The rate at which the cores multiply, from registers.

#include <span>

#include "engine/threads/thread_team.hpp"
#include "probe/samples.hpp"

namespace rigcast::probe {

/// A loop over one instruction.
struct CpuLoop {
  const char* name;
  double operations;  // operations of a run on one thread; a multiply-add counts as two
  void (*run)();
};
/// The best instruction for 8-bit products with 32-bit sums, then F32 multiply-adds. Empty where no
/// instructions of the CPU are known.
std::span<const CpuLoop> cpu_loops();

/// FLOP/s of the whole team in these loops, and cycles/s of each thread while all of them work: two
/// threads that share a core each have a clock of their own. n is 0 where a rate is not measured.
struct CpuRates {
  Samples int8, fp32, clock;
  // Rate of one thread with a core to itself, scaled to `clock`: the maximum over several
  // processors, not the median.
  Samples core_int8;
};

CpuRates cpu_rates(engine::ThreadTeam& team);

}  // namespace rigcast::probe
