#pragma once
// The highest rate at which all threads together read memory: the reference for streaming kernels.

#include <vector>

#include "bench/engine/contenders.hpp"
#include "probe/dram_read.hpp"

namespace rigcast::bench {

/// All methods of reading; the best median is the machine's bandwidth.
std::vector<Contender> read_contenders(probe::DramRead& dram);

/// The best median of the first `count`. Prints a warning if the rate changed meanwhile.
double best_median(std::span<const Rates> rates, std::size_t count);

}  // namespace rigcast::bench
