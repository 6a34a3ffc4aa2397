#pragma once
// What the files of all instruction sets share: everything they include comes before they switch
// the set on, so that no inline function of a library is compiled for it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/base/error.hpp"
#include "engine/kernels/cpu/int8/int8_kernels.hpp"
#include "engine/kernels/ref/grids.hpp"

#define RIGCAST_RESTRICT __restrict__
#define RIGCAST_INLINE inline __attribute__((always_inline))
#define RIGCAST_UNROLL _Pragma("GCC unroll 8")

namespace rigcast::engine::cpu {

extern const Int8Kernels kInt8Plain, kInt8Avx2, kInt8Avx512;

}  // namespace rigcast::engine::cpu
