#pragma once
// Quantized weights times rounded activations, in integers: the kernels of decode (one row of
// activations) and of prefill (a batch). One set of functions per instruction set.

#include <span>

#include "engine/kernels/cpu/int8_kernels.hpp"

namespace rigcast::engine::cpu {

/// Formats that these kernels read: all but F32, F16 and BF16.
bool has_int8_kernel(QuantFormat format);

/// Of the best instruction set that this CPU has.
const Int8Kernels& int8_kernels();
/// All that this CPU can run, the plainest first.
std::span<const Int8Kernels* const> all_int8_kernels();

}  // namespace rigcast::engine::cpu
