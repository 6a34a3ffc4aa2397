#pragma once
// Peak rates of the best instructions for kernels, on all threads, from registers.

#include <vector>

#include "bench/engine/contenders.hpp"
#include "engine/threads/thread_team.hpp"

namespace rigcast::bench {

/// 8-bit dot products, then F32 multiply-adds; a multiply-add counts as two operations. Empty if
/// this file has no instructions for the CPU.
std::vector<Contender> peak_contenders(engine::ThreadTeam& team);

}  // namespace rigcast::bench
