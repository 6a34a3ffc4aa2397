#pragma once
// GPU memory and time of a context, before anything is allocated.

#include "probe/gpu.hpp"

namespace rigcast::probe {

/// Measures GPU memory and time of the context, the memory used by others before, and the total.
/// Throws engine::CudaFailure.
void measure_context(int device, Gpu& gpu);

}  // namespace rigcast::probe
