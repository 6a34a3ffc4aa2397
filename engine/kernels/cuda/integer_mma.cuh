#pragma once
// Device code: products of 8-bit integers on tensor cores (sm_80 and later), by a warp. Lane 4 g +
// t holds of 16 rows of weights the rows g and g + 8, of 8 tokens the token g as input and the
// tokens 2 t and 2 t + 1 of a sum, and of 16 columns the four from 4 t on.

#include <cstdint>

namespace rigcast::engine::cuda {

/// What sums begin with. Read as a float it is 1.5 * 2^23, whose last place is 1: a float that
/// holds a sum below 2^22 in magnitude, without a conversion.
inline constexpr int kSumBias = 0x4B400000;
__device__ __forceinline__ float unbiased(int sum) { return __int_as_float(sum) - 12582912.0f; }

/// Four tiles of 8 rows of 16 bytes: lane i names row i % 8 of tile i / 8, and gets of tile k the
/// word t of row g.
__device__ __forceinline__ void load_tiles(std::uint32_t (&word)[4], const void* shared_row) {
#if __CUDA_ARCH__ >= 800
  const auto from = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared_row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
               : "r"(from)
               : "memory");
#endif
}

/// 16 rows of 32 columns: words of row g and g + 8 of the first 16 columns, then of the others.
struct WeightWords {
  std::uint32_t word[4];
};
/// Sums of row g with both tokens, then of row g + 8.
struct Sums {
  int of[4];
};

__device__ __forceinline__ Sums multiply32(const WeightWords& w, std::uint32_t low,
                                           std::uint32_t high) {
  Sums s{};
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
      : "=r"(s.of[0]), "=r"(s.of[1]), "=r"(s.of[2]), "=r"(s.of[3])
      : "r"(w.word[0]), "r"(w.word[1]), "r"(w.word[2]), "r"(w.word[3]), "r"(low), "r"(high),
        "r"(kSumBias));
#endif
  return s;
}

/// Half (0, 1) of the 32 columns alone.
template <int kHalf>
__device__ __forceinline__ Sums multiply16(const WeightWords& w, std::uint32_t x) {
  Sums s{};
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 "
      "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %7, %7, %7};"
      : "=r"(s.of[0]), "=r"(s.of[1]), "=r"(s.of[2]), "=r"(s.of[3])
      : "r"(w.word[2 * kHalf]), "r"(w.word[2 * kHalf + 1]), "r"(x), "r"(kSumBias));
#endif
  return s;
}

}  // namespace rigcast::engine::cuda
