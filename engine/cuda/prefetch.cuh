#pragma once
// Device code.

namespace rigcast::engine::cuda {

/// Starts to fetch the line of 128 bytes that holds *at into the L1 cache. For what no earlier
/// kernel may still be writing.
__device__ __forceinline__ void prefetch(const float* at) {
  asm volatile("prefetch.global.L1 [%0];" ::"l"(__cvta_generic_to_global(at)));
}

}  // namespace rigcast::engine::cuda
