#pragma once
// Quantized weights times rounded activations, in integers: the kernels of decode (one row of
// activations) and of prefill (a batch). One set of functions per instruction set.

#include <span>

#include "engine/kernels/cpu/int8/int8_kernels.hpp"

namespace rigcast::engine::cpu {

/// Formats that these kernels read: all but F32, F16 and BF16.
bool has_int8_kernel(QuantFormat format);

/// The kernels for the best instruction set of this CPU.
const Int8Kernels& int8_kernels();
/// The kernels for all instruction sets that this CPU supports, the simplest first.
std::span<const Int8Kernels* const> all_int8_kernels();

}  // namespace rigcast::engine::cpu
