#pragma once
// The fastest that all threads together can read memory: what kernels that stream are held against.

#include <vector>

#include "bench/engine/contenders.hpp"
#include "probe/dram_read.hpp"

namespace rigcast::bench {

/// All ways to read; the best one's median is the machine's bandwidth.
std::vector<Contender> read_contenders(probe::DramRead& dram);

/// The best median of the first `count`. Says so if the rate changed while they ran.
double best_median(std::span<const Rates> rates, std::size_t count);

}  // namespace rigcast::bench
