#pragma once
// The parts of what is measured of a GPU, each on the one that is current. All throw
// engine::CudaFailure, or std::runtime_error with what is missing.

#include <functional>
#include <string>
#include <vector>

#include "probe/gpu.hpp"

namespace rigcast::probe {

/// How much of the GPU's memory its context takes, what others had before, and how much there is.
void measure_context(int device, Gpu& gpu);
/// `while_copying` is called once, in the middle of copies in both directions.
CopyRates measure_copies(const std::function<void()>& while_copying);
Takes measure_vram();

}  // namespace rigcast::probe
