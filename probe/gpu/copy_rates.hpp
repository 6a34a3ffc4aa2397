#pragma once
// Rates of copies between host and GPU.

#include <functional>

#include "probe/gpu.hpp"

namespace rigcast::probe {

/// Measures the current device. `while_copying` is called once, in the middle of copies in both
/// directions. Throws engine::CudaFailure.
CopyRates measure_copies(const std::function<void()>& while_copying);

}  // namespace rigcast::probe
