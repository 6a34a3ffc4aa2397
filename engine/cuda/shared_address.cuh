#pragma once
// Device code: addresses in shared memory, as instructions take them.

#include <cstdint>

namespace rigcast::engine::cuda {

__device__ __forceinline__ std::uint32_t shared_address(const void* at) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
}

}  // namespace rigcast::engine::cuda
