#pragma once
// The parts of a GPU's measurement, each on the current device. All throw engine::CudaFailure, or
// std::runtime_error that names what is missing.

#include <functional>
#include <string>
#include <vector>

#include "probe/gpu.hpp"

namespace rigcast::probe {

/// Measures the GPU memory of the context, the memory used by others before, and the total.
void measure_context(int device, Gpu& gpu);
/// `while_copying` is called once, in the middle of copies in both directions.
CopyRates measure_copies(const std::function<void()>& while_copying);
Samples measure_vram();

}  // namespace rigcast::probe
