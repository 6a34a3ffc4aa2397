// AVX2: 8 rows a tile. Products of bytes are summed in pairs to 16 bits, which does not overflow
// while u < 128; wider u go through 16-bit products.
#include "engine/kernels/cpu/int8/targets.hpp"
#include "engine/kernels/cpu/prefetch.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")

namespace rigcast::engine::cpu {
namespace {

constexpr int kLanes = 8;
constexpr int kTogether = 2;     // rows of activations that share unpacked weights
constexpr int kGroupedRows = 4;  // rows of weights that share a reading of activations
using TileInts = __m256i;
using TileFloats = __m256;

// Sums of four neighbouring products.
template <bool kSevenBits>
RIGCAST_INLINE __m256i dot(__m256i u, __m256i q) {
  const __m256i ones = _mm256_set1_epi16(1);
  if constexpr (kSevenBits) {
    return _mm256_madd_epi16(_mm256_maddubs_epi16(u, q), ones);
  } else {
    // u = 128 * its top bit + the rest, each of which fits.
    const __m256i top = _mm256_and_si256(_mm256_srli_epi16(u, 7), _mm256_set1_epi8(1));
    const __m256i rest = _mm256_and_si256(u, _mm256_set1_epi8(127));
    const __m256i tops = _mm256_madd_epi16(_mm256_maddubs_epi16(top, q), ones);
    const __m256i rests = _mm256_madd_epi16(_mm256_maddubs_epi16(rest, q), ones);
    return _mm256_add_epi32(_mm256_slli_epi32(tops, 7), rests);
  }
}

RIGCAST_INLINE __m256i where(std::uint32_t bits, char v) {
  // Each byte gets the eight bits that its own is among, and looks at that one.
  const __m256i eight = _mm256_setr_epi64x(0x0000000000000000, 0x0101010101010101,
                                           0x0202020202020202, 0x0303030303030303);
  const __m256i own = _mm256_set1_epi64x(std::int64_t(0x8040201008040201));
  const __m256i spread = _mm256_shuffle_epi8(_mm256_set1_epi32(int(bits)), eight);
  const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(spread, own), own);
  return _mm256_and_si256(set, _mm256_set1_epi8(v));
}

// sum + the same.
template <bool kSevenBits>
RIGCAST_INLINE __m256i group_dot(__m256i sum, __m256i u, __m256i q) {
  return _mm256_add_epi32(sum, dot<kSevenBits>(u, q));
}
RIGCAST_INLINE TileInts tile_zero() { return _mm256_setzero_si256(); }
RIGCAST_INLINE TileInts tile_weights(const std::uint8_t* u) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(u));
}
template <bool kSevenBits>
RIGCAST_INLINE TileInts tile_dot(TileInts sum, TileInts weights, const std::int8_t* q) {
  std::int32_t four;
  std::memcpy(&four, q, sizeof four);
  return _mm256_add_epi32(sum, dot<kSevenBits>(weights, _mm256_set1_epi32(four)));
}
RIGCAST_INLINE void tile_transpose(const void* from, std::size_t stride, void* low, void* high) {
  __m256i r[8], t[8];
  RIGCAST_UNROLL
  for (std::size_t i = 0; i < 8; ++i)
    r[i] = _mm256_loadu_si256(
        reinterpret_cast<const __m256i*>(static_cast<const char*>(from) + i * stride));
  RIGCAST_UNROLL
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
  }
  // r[4 * g + j], 128 bits l: word 4 * l + j of rows 4 * g to 4 * g + 3.
  RIGCAST_UNROLL
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm256_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm256_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm256_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  auto* const to_low = static_cast<__m256i*>(low);
  auto* const to_high = static_cast<__m256i*>(high);
  RIGCAST_UNROLL
  for (int j = 0; j < 4; ++j) {
    _mm256_store_si256(to_low + j, _mm256_permute2x128_si256(r[j], r[4 + j], 0x20));
    _mm256_store_si256(to_high + j, _mm256_permute2x128_si256(r[j], r[4 + j], 0x31));
  }
}
RIGCAST_INLINE TileFloats tile_load(const float* p) { return _mm256_load_ps(p); }
RIGCAST_INLINE void tile_store(TileFloats v, float* p) { _mm256_store_ps(p, v); }
RIGCAST_INLINE TileFloats tile_scale(TileInts dot, TileFloats a, float scale, TileFloats b,
                                     float sum, TileFloats total) {
  total = _mm256_fmadd_ps(b, _mm256_set1_ps(sum), total);
  return _mm256_fmadd_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(dot), a), _mm256_set1_ps(scale), total);
}

#include "engine/kernels/cpu/int8/row_avx.inc"
template <class Format>
using RowBlocks32 = Blocks32<Format>;
// after what is common
#include "engine/kernels/cpu/int8/row_k_avx2.inc"
#include "engine/kernels/cpu/int8/unpack.inc"
// after look_up
#include "engine/kernels/cpu/int8/unpack_codes.inc"
// after put_signed and unpack_codes
#include "engine/kernels/cpu/int8/unpack_grids.inc"
// after their tables
#include "engine/kernels/cpu/int8/row_codes_avx.inc"
// after what is common
#include "engine/kernels/cpu/int8/row_codes_avx2.inc"
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

extern const Int8Kernels kInt8Avx2;
const Int8Kernels kInt8Avx2{"AVX2", multiply_row, multiply_few, multiply_batch};

}  // namespace rigcast::engine::cpu
#pragma GCC pop_options
#endif
