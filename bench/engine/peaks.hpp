#pragma once
// Rates of the best instructions that kernels could use, on all threads, from registers.

#include <vector>

#include "bench/engine/contenders.hpp"
#include "engine/threads/team.hpp"

namespace rigcast::bench {

/// 8-bit dot products, then F32 multiply-adds; a multiply-add is two operations. Empty where this
/// file knows no instructions of the CPU.
std::vector<Contender> peak_contenders(engine::Team& team);

}  // namespace rigcast::bench
