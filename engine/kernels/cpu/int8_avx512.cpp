// AVX-512 with 8-bit dot products (VNNI): 16 rows a tile.
#include "engine/kernels/cpu/ask_ahead.hpp"
#include "engine/kernels/cpu/int8_targets.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

// GCC 12 takes the undefined operand of its own intrinsics for a mistake of ours (bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")

namespace rigcast::engine::cpu {
namespace {

constexpr int kLanes = 16;
using TileInts = __m512i;
using TileFloats = __m512;

// Sums of four neighbouring products.
template <bool kSevenBits>
RIGCAST_INLINE __m256i dot(__m256i u, __m256i q) {
  return _mm256_dpbusd_epi32(_mm256_setzero_si256(), u, q);
}

RIGCAST_INLINE __m256i where(std::uint32_t bits, char v) { return _mm256_maskz_set1_epi8(bits, v); }

RIGCAST_INLINE TileInts tile_zero() { return _mm512_setzero_si512(); }
RIGCAST_INLINE TileInts tile_weights(const std::uint8_t* u) { return _mm512_load_si512(u); }
template <bool kSevenBits>
RIGCAST_INLINE TileInts tile_dot(TileInts sum, TileInts weights, const std::int8_t* q) {
  std::int32_t four;
  std::memcpy(&four, q, sizeof four);
  return _mm512_dpbusd_epi32(sum, weights, _mm512_set1_epi32(four));
}
RIGCAST_INLINE TileFloats tile_load(const float* p) { return _mm512_load_ps(p); }
RIGCAST_INLINE void tile_store(TileFloats v, float* p) { _mm512_store_ps(p, v); }
RIGCAST_INLINE TileFloats tile_scale(TileInts dot, TileFloats a, float scale, TileFloats b,
                                     float sum, TileFloats total) {
  total = _mm512_fmadd_ps(b, _mm512_set1_ps(sum), total);
  return _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(dot), a), _mm512_set1_ps(scale), total);
}

#include "engine/kernels/cpu/row_avx.inc"
// after what is common
#include "engine/kernels/cpu/row_k_avx512.inc"
// after the vectors of those
#include "engine/kernels/cpu/row_32_avx512.inc"
template <class Format>
using RowBlocks32 = Pairs32<Format>;
#include "engine/kernels/cpu/unpack.inc"
// after look_up
#include "engine/kernels/cpu/unpack_codes.inc"
// after their tables
#include "engine/kernels/cpu/row_codes_avx.inc"
// after what is common
#include "engine/kernels/cpu/row_codes_avx512.inc"
// after the formats
#include "engine/kernels/cpu/row_loop.inc"
#include "engine/kernels/cpu/tiles.inc"

}  // namespace

extern const Int8Kernels kInt8Avx512;
const Int8Kernels kInt8Avx512{"AVX-512 VNNI", multiply_row, multiply_batch};

}  // namespace rigcast::engine::cpu
#pragma GCC pop_options
#endif
