#pragma once
// Device code: asynchronous copies to shared memory, loads of activations, sums over rows.

#include <cstdint>

#include "engine/kernels/cuda/activations/inputs.cuh"

namespace rigcast::engine::cuda {

/// Starts an asynchronous copy of 4, 8 or 16 aligned bytes. Copies of 16 bytes bypass the L1 cache:
/// weights are read once, and activations stay there.
template <int kBytes>
__device__ __forceinline__ void copy_async(void* shared, const std::uint8_t* from) {
#if __CUDA_ARCH__ >= 800
  const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  const auto source = __cvta_generic_to_global(from);
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(source) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(source), "n"(kBytes)
                 : "memory");
#else
  for (int i = 0; i < kBytes; i += 4)
    *reinterpret_cast<std::uint32_t*>(static_cast<std::uint8_t*>(shared) + i) =
        *reinterpret_cast<const std::uint32_t*>(from + i);
#endif
}

/// Commits the copies started since the last call as a group.
__device__ __forceinline__ void commit_group() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Waits until all groups of this thread but the last `kPending` have arrived.
template <int kPending>
__device__ __forceinline__ void wait_for_group() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

/// Loads weights at this place in the code; the compiler may not move the load.
__device__ __forceinline__ uint4 load_weights16(const void* from) {
  uint4 v;
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(__cvta_generic_to_global(from)));
  return v;
}

// Loads activations. What the previous kernel wrote must not be read through the read-only cache,
// which a plain load may become where the compiler sees no store; nor before the kernel has waited
// for its inputs.
__device__ __forceinline__ uint4 load_input16(const void* from) {
  uint4 v;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(__cvta_generic_to_global(from)));
  return v;
}
__device__ __forceinline__ float2 load_input8(const void* from) {
  float2 v;
  asm volatile("ld.global.v2.f32 {%0, %1}, [%2];"
               : "=f"(v.x), "=f"(v.y)
               : "l"(__cvta_generic_to_global(from)));
  return v;
}
__device__ __forceinline__ float load_input4(const void* from) {
  float v;
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(v) : "l"(__cvta_generic_to_global(from)));
  return v;
}

/// Sums of `kRows` values over lanes that are up to kDistance apart. Lane i gets the sum of row i /
/// (2 * kDistance / kRows). The order of additions is fixed.
template <int kRows, int kDistance = 16>
__device__ __forceinline__ float sum_rows(const float (&value)[kRows], int lane) {
  static_assert(kRows <= 2 * kDistance && (kRows & (kRows - 1)) == 0);
  if constexpr (kRows == 1) {
    float sum = value[0];
    for (int d = kDistance; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    return sum;
  } else {
    // Each half of the lanes keeps half of the rows and sends the others.
    const bool upper = lane & kDistance;
    constexpr int kHalf = kRows / 2;
    float kept[kHalf];
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const float sent = upper ? value[i] : value[i + kHalf];
      kept[i] = (upper ? value[i + kHalf] : value[i]) + __shfl_xor_sync(~0u, sent, kDistance);
    }
    return sum_rows<kHalf, kDistance / 2>(kept, lane);
  }
}

}  // namespace rigcast::engine::cuda
