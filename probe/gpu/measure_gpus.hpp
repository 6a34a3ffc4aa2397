#pragma once
// Finds the GPUs, and measures one after another.

#include "core/base/stop_flag.hpp"
#include "probe/gpu.hpp"
#include "probe/progress.hpp"

namespace rigcast::probe {

/// Takes some seconds per GPU; checks `stop` between figures, and throws Interrupted. Resets this
/// process' contexts, so no other code in it may use CUDA meanwhile. A figure that cannot be
/// measured is left out and noted.
Gpus measure_gpus(const Progress& progress, const StopFlag& stop = {});

}  // namespace rigcast::probe
