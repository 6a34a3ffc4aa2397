#pragma once
// Rates at which kernels read the GPU's memory.

#include "core/base/stop_flag.hpp"
#include "probe/samples.hpp"

namespace rigcast::probe {

/// The rate of the current device, in bytes/s. Throws engine::CudaFailure.
Samples measure_vram();

/// Rate at which the first GPU reads its memory, in bytes/s. Takes a second or two, and uses at
/// most a quarter of the free memory. n is 0 where it cannot be measured. Throws Interrupted.
Samples vram_read(const StopFlag& stop = {});

}  // namespace rigcast::probe
