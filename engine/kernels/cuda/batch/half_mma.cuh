#pragma once
// Device code: a warp multiplies F16 values on tensor cores, with sums in F32. Requires sm_80; code
// for older GPUs ends the kernel with an error. Layout: lane 4 g + t holds, of 16 rows of weights,
// rows g and g + 8; of 8 tokens, token g as input and tokens 2 t and 2 t + 1 of a sum; and four of
// 16 columns.

#include <cuda_fp16.h>

#include <cstdint>

namespace rigcast::engine::cuda {

/// Loads four tiles of 8 rows of 16 bytes: lane i passes the address of row i % 8 of tile i / 8,
/// and gets word t of row g of each tile.
__device__ __forceinline__ void load_tiles(std::uint32_t (&word)[4], const void* shared_row) {
#if __CUDA_ARCH__ >= 800
  const auto from = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared_row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
               : "r"(from)
               : "memory");
#else
  __trap();
#endif
}

/// 16 rows of 16 columns, two F16 values per word: for rows g and g + 8 the lane's first two
/// columns, then its other two.
struct Fp16Weights {
  std::uint32_t word[4];
};

/// `sums`: row g with both tokens, then row g + 8. `x`: the token's F16 values in the lane's
/// columns.
__device__ __forceinline__ void multiply_add(float (&sums)[4], const Fp16Weights& w, uint2 x) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(w.word[0]), "r"(w.word[1]), "r"(w.word[2]), "r"(w.word[3]), "r"(x.x), "r"(x.y));
#else
  __trap();
#endif
}

/// Converts bytes 0, 1 and 2, 3 of `codes` to F16 plus 1024, exactly.
__device__ __forceinline__ void dequantize_bytes(std::uint32_t codes, std::uint32_t& low,
                                                 std::uint32_t& high) {
  low = __byte_perm(codes, 0x64646464, 0x4140);
  high = __byte_perm(codes, 0x64646464, 0x4342);
}

__device__ __forceinline__ __half2 pair_of(std::uint32_t word) {
  return *reinterpret_cast<const __half2*>(&word);
}
__device__ __forceinline__ std::uint32_t word_of_pair(__half2 pair) {
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}

}  // namespace rigcast::engine::cuda
