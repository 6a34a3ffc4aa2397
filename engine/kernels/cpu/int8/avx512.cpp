// AVX-512 with 8-bit dot products (VNNI): 16 rows a tile.
#include "engine/kernels/cpu/int8/targets.hpp"
#include "engine/kernels/cpu/prefetch.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

// GCC 12 takes the undefined operand of its own intrinsics for a mistake of ours (bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")

namespace rigcast::engine::cpu {
namespace {

constexpr int kLanes = 16;
constexpr int kTogether = 8;     // rows of activations that share unpacked weights
constexpr int kGroupedRows = 8;  // rows of weights that share a reading of activations
using TileInts = __m512i;
using TileFloats = __m512;

// Sums of four neighbouring products.
template <bool kSevenBits>
RIGCAST_INLINE __m256i dot(__m256i u, __m256i q) {
  return _mm256_dpbusd_epi32(_mm256_setzero_si256(), u, q);
}

RIGCAST_INLINE __m256i where(std::uint32_t bits, char v) { return _mm256_maskz_set1_epi8(bits, v); }

// sum + the same.
template <bool kSevenBits>
RIGCAST_INLINE __m256i group_dot(__m256i sum, __m256i u, __m256i q) {
  return _mm256_dpbusd_epi32(sum, u, q);
}
RIGCAST_INLINE TileInts tile_zero() { return _mm512_setzero_si512(); }
RIGCAST_INLINE TileInts tile_weights(const std::uint8_t* u) { return _mm512_load_si512(u); }
template <bool kSevenBits>
RIGCAST_INLINE TileInts tile_dot(TileInts sum, TileInts weights, const std::int8_t* q) {
  std::int32_t four;
  std::memcpy(&four, q, sizeof four);
  return _mm512_dpbusd_epi32(sum, weights, _mm512_set1_epi32(four));
}
RIGCAST_INLINE void tile_transpose(const void* from, std::size_t stride, void* low, void* high) {
  __m512i r[16], t[16];
  RIGCAST_UNROLL
  for (std::size_t i = 0; i < 16; ++i)
    r[i] = _mm512_loadu_si512(static_cast<const char*>(from) + i * stride);
  RIGCAST_UNROLL
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  // r[4 * g + j], 128 bits l: word 4 * l + j of rows 4 * g to 4 * g + 3.
  RIGCAST_UNROLL
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  auto* const to_low = static_cast<__m512i*>(low);
  auto* const to_high = static_cast<__m512i*>(high);
  constexpr int kEven = 0x88, kOdd = 0xdd;
  RIGCAST_UNROLL
  for (int j = 0; j < 4; ++j) {
    const __m512i even = _mm512_shuffle_i32x4(r[j], r[4 + j], kEven),
                  odd = _mm512_shuffle_i32x4(r[j], r[4 + j], kOdd),
                  even_2 = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], kEven),
                  odd_2 = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], kOdd);
    _mm512_store_si512(to_low + j, _mm512_shuffle_i32x4(even, even_2, kEven));
    _mm512_store_si512(to_low + 4 + j, _mm512_shuffle_i32x4(odd, odd_2, kEven));
    _mm512_store_si512(to_high + j, _mm512_shuffle_i32x4(even, even_2, kOdd));
    _mm512_store_si512(to_high + 4 + j, _mm512_shuffle_i32x4(odd, odd_2, kOdd));
  }
}
RIGCAST_INLINE TileFloats tile_load(const float* p) { return _mm512_load_ps(p); }
RIGCAST_INLINE void tile_store(TileFloats v, float* p) { _mm512_store_ps(p, v); }
RIGCAST_INLINE TileFloats tile_scale(TileInts dot, TileFloats a, float scale, TileFloats b,
                                     float sum, TileFloats total) {
  total = _mm512_fmadd_ps(b, _mm512_set1_ps(sum), total);
  return _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(dot), a), _mm512_set1_ps(scale), total);
}

#include "engine/kernels/cpu/int8/row_avx.inc"
// after what is common
#include "engine/kernels/cpu/int8/row_k_avx512.inc"
// after the vectors of those
#include "engine/kernels/cpu/int8/row_32_avx512.inc"
template <class Format>
using RowBlocks32 = Pairs32<Format>;
#include "engine/kernels/cpu/int8/unpack.inc"
// after look_up
#include "engine/kernels/cpu/int8/unpack_codes.inc"
// after put_signed and unpack_codes
#include "engine/kernels/cpu/int8/unpack_grids.inc"
// after their tables
#include "engine/kernels/cpu/int8/row_codes_avx.inc"
// after what is common
#include "engine/kernels/cpu/int8/row_codes_avx512.inc"
// after the formats
#include "engine/kernels/cpu/int8/tiles.inc"
// after Unpacked
#include "engine/kernels/cpu/int8/row_unpacked_avx.inc"
// after all rows
#include "engine/kernels/cpu/int8/row_loop.inc"
// after tiles
#include "engine/kernels/cpu/int8/groups_avx.inc"
// after both
#include "engine/kernels/cpu/int8/batch.inc"

}  // namespace

extern const Int8Kernels kInt8Avx512;
const Int8Kernels kInt8Avx512{"AVX-512 VNNI", multiply_row, multiply_few, multiply_batch};

}  // namespace rigcast::engine::cpu
#pragma GCC pop_options
#endif
