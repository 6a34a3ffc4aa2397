#pragma once
// Device code: products of halves on tensor cores, by a warp, with sums in F32. Code for sm_80 and
// later; what is compiled for less ends the kernel with an error.
// Lane 4 g + t holds of 16 rows of weights the rows g and g + 8, of 8 tokens the token g as input
// and the tokens 2 t and 2 t + 1 of a sum, and of 16 columns four.

#include <cuda_fp16.h>

#include <cstdint>

namespace rigcast::engine::cuda {

/// Four tiles of 8 rows of 16 bytes: lane i names row i % 8 of tile i / 8, and gets of tile k the
/// word t of row g.
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

/// 16 rows of 16 columns, two halves a word: of row g and g + 8 the lane's first two columns, then
/// its other two.
struct WeightHalves {
  std::uint32_t word[4];
};

/// sums: of row g with both tokens, then of row g + 8. x: the token's halves of the lane's columns.
__device__ __forceinline__ void multiply_add(float (&sums)[4], const WeightHalves& w, uint2 x) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(w.word[0]), "r"(w.word[1]), "r"(w.word[2]), "r"(w.word[3]), "r"(x.x), "r"(x.y));
#else
  __trap();
#endif
}

/// Bytes 0, 1 and 2, 3 of `codes` as halves, 1024 more than they are: exact.
__device__ __forceinline__ void widen_bytes(std::uint32_t codes, std::uint32_t& low,
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
