#pragma once
// Device code that the attention kernels share: products of 16 x 16 and 16 x 8 tiles, tiles that
// are copied from the cache to shared memory, and the scale of probabilities.

#ifdef __CUDACC__

#include <cuda_fp16.h>

#include <cstdint>

#include "engine/cuda/shared_address.cuh"
#include "engine/kernels/cuda/kv/cache.cuh"

namespace rigcast::engine::cuda {

using Bytes = const std::byte*;

/// Rows of the cache in a tile. The cache's blocks hold a multiple of it, so these rows are
/// contiguous and begin at a multiple of 16 bytes, whatever the cache's type.
inline constexpr int kTileRows = 16;

/// The elements of values that a block sums up: of wider heads several blocks sum parts, since more
/// do not fit into registers; each computes all scores.
template <int kDim>
inline constexpr int kValueDim = kDim <= 256 ? kDim : 256;
template <int kDim>
inline constexpr int kValueParts = kDim / kValueDim<kDim>;

/// The first token that the one at `position` sees. `window`: a count of tokens; 0: all of them;
/// negative: the context is cut into pieces of so many. May be negative.
__device__ __forceinline__ int first_seen(int position, int window) {
  if (window < 0) return position / -window * -window;
  return window > 0 ? position + 1 - window : 0;
}

/// F16 values in a row of a tile in shared memory: an odd number of 16-byte chunks, so that eight
/// rows read at one column touch every bank once.
template <int kDim>
inline constexpr int kTileStride = kDim + 8;

// Copies 16 bytes to shared memory, or writes zeros without reading the source.
__device__ __forceinline__ void copy_async_or_zero(std::uint32_t to, Bytes from, bool copy) {
#if __CUDA_ARCH__ >= 800
  const int bytes = copy ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
#else
  uint4 v = make_uint4(0, 0, 0, 0);
  if (copy) v = *reinterpret_cast<const uint4*>(from);
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z),
               "r"(v.w)
               : "memory");
#endif
}

/// Commits a group of copies, which may be empty.
__device__ __forceinline__ void commit_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Waits until this thread's copies have arrived, except those of the last kUnderWay groups.
template <int kUnderWay>
__device__ __forceinline__ void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kUnderWay) : "memory");
#endif
}

/// Loads four 8 x 8 tiles of F16; `at` is the address of row `lane % 8` of tile `lane / 8`.
__device__ __forceinline__ void load_tiles(std::uint32_t (&r)[4], std::uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
}
__device__ __forceinline__ void load_tiles_transposed(std::uint32_t (&r)[4], std::uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
}

/// c += a b, 16 x 16 times 16 x 8. A lane holds rows lane / 4 (c[0], c[1]) and lane / 4 + 8 (c[2],
/// c[3]) of c, in columns 2 (lane % 4) and the next.
__device__ __forceinline__ void multiply_add(float (&c)[4], const std::uint32_t (&a)[4],
                                             std::uint32_t b0, std::uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(b0));
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[2]), "r"(a[3]), "r"(b1));
#endif
}

__device__ __forceinline__ std::uint32_t pack_half2(float low, float high) {
  const __half2 both = __floats2half2_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&both);
}

/// 2^x, with a relative error of at most 2^-22; 0 for -infinity.
__device__ __forceinline__ float power_of_2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Returns m, the scale of the probabilities 2^(score - m): a whole number, 15 below the smallest
/// one that no score exceeds. F16 then holds probabilities without overflow. Those that are 2^-29
/// of the largest keep all their bits, so a long tail counts. Another m changes no bit of them, so
/// results hardly depend on how tokens are split.
__device__ __forceinline__ float exponent_for(float largest_score) {
  return ceilf(largest_score) - 15.0f;
}

/// The maximum, and the sum, over the four lanes that share a row of a product.
__device__ __forceinline__ float row_max(float v) {
  v = fmaxf(v, __shfl_xor_sync(~0u, v, 1));
  return fmaxf(v, __shfl_xor_sync(~0u, v, 2));
}
__device__ __forceinline__ float row_sum(float v) {
  v += __shfl_xor_sync(~0u, v, 1);
  return v + __shfl_xor_sync(~0u, v, 2);
}

/// The keys, or the values, of one head in one layer of the cache.
struct HeadRows {
  std::byte* const* blocks;
  std::int64_t offset;  // in a block
  int block_tokens, row_bytes;
  QuantFormat type;

  /// The address of a token's row; the rows up to the next multiple of kTileRows follow it.
  __device__ __forceinline__ Bytes row(int token) const {
    const int block = token / block_tokens;
    return row(blocks[block], token - block * block_tokens);
  }
  __device__ __forceinline__ Bytes row(Bytes block, int token_of_block) const {
    return block + offset + token_of_block * row_bytes;
  }
};
__device__ __forceinline__ HeadRows keys_of(const Cache& c, int layer, int head) {
  return {c.blocks, c.keys_at(layer, head), c.block_tokens, c.k_row, c.k_type};
}
__device__ __forceinline__ HeadRows values_of(const Cache& c, int layer, int head) {
  return {c.blocks, c.values_at(layer, head), c.block_tokens, c.v_row, c.v_type};
}

// A value in the block's shared memory, by its byte offset. The compiler then knows that the
// address is in shared memory, and adds constants without an instruction (if offsets are signed).
template <class T>
__device__ __forceinline__ T shared_at(int offset) {
  extern __shared__ __align__(16) std::byte shared[];
  return *reinterpret_cast<const T*>(shared + offset);
}

__device__ __forceinline__ int shared_offset(const std::byte* at) {
  extern __shared__ __align__(16) std::byte shared[];
  return int(at - shared);
}

__device__ __forceinline__ __half2 as_half2(std::uint32_t bits) {
  return *reinterpret_cast<const __half2*>(&bits);
}

// Two bytes minus `zero`, times d. The byte 0x64 above a byte b makes the F16 value 1024 + b.
__device__ __forceinline__ std::uint32_t scaled_bytes(std::uint32_t bits, std::uint32_t zero,
                                                      __half2 d) {
  const __half2 x = __hmul2(__hsub2(as_half2(bits), as_half2(zero)), d);
  return *reinterpret_cast<const std::uint32_t*>(&x);
}

/// A row of the cache in shared memory. A lane reads one word of four values in every block of 32.
/// A block of 8-bit or 4-bit values begins with an F16 scale and has an odd number of 2-byte units,
/// so in every other block the word straddles two words of memory.
template <QuantFormat kType>
class RowWords {
 public:
  /// `row`: byte offset in shared memory; even, and for F16 rows a multiple of 8.
  __device__ __forceinline__ RowWords(int row, int word) : row_(row), nibbles_(word / 4 * 4) {
    const int half = row & 2;
    odd_ = (row & ~3) + (kBytes ? word : word % 4) * 4 + 2;
    even_ = odd_ - 2 + 2 * half;
    odd_shift_ = half * 8;
    if (kType == QuantFormat::kF16) row_ += word * 8;
  }

  /// The word's values as F16, each the nearest to d * q. `ahead`: reads the word at this distance
  /// instead (0 or 4). For 8-bit and 4-bit values, 4 bytes past the row may be read.
  template <int kAhead = 0>
  __device__ __forceinline__ uint2 fp16(int block) const {
    if constexpr (kType == QuantFormat::kF16) {
      return shared_at<uint2>(row_ + (block * 64 + kAhead * 8));
    } else {
      const int offset = block * kBlock + (kBytes ? kAhead * 4 : 0);
      const __half2 d = __half2half2(shared_at<__half>(row_ + block * kBlock));
      const std::uint32_t w = block % 2 == 0 ? word_at(even_, offset, 16 - odd_shift_)
                                             : word_at(odd_, offset, odd_shift_);
      const int nibbles = nibbles_ + (kBytes ? 0 : kAhead);
      const std::uint32_t q = kBytes ? w ^ 0x80808080u : (w >> nibbles) & 0x0F0F0F0Fu;
      return make_uint2(scaled_bytes(__byte_perm(q, 0x64646464u, 0x4140), kZero, d),
                        scaled_bytes(__byte_perm(q, 0x64646464u, 0x4342), kZero, d));
    }
  }

 private:
  static constexpr bool kBytes = kType == QuantFormat::kQ8_0;
  static constexpr int kBlock = kBytes ? 34 : 18;
  static constexpr std::uint32_t kZero = kBytes ? 0x64806480u : 0x64086408u;  // 1024 + 128, + 8

  static __device__ __forceinline__ std::uint32_t word_at(int at, int offset, int shift) {
    return __funnelshift_r(shared_at<std::uint32_t>(at + offset),
                           shared_at<std::uint32_t>(at + (offset + 4)), unsigned(shift));
  }

  int row_, nibbles_;
  int even_, odd_;  // where words begin in blocks with even and odd index
  int odd_shift_;
};

__device__ __forceinline__ std::uint32_t low_half2(std::uint32_t a, std::uint32_t b) {
  return __byte_perm(a, b, 0x5410);
}
__device__ __forceinline__ std::uint32_t high_half2(std::uint32_t a, std::uint32_t b) {
  return __byte_perm(a, b, 0x7632);
}

/// Converts kRows rows of the cache, in shared memory at `from`, to rows of F16 with stride
/// kStride. Rows outside [first, end) become zeros; columns past the head's are not written.
/// kThreads threads take part.
template <QuantFormat kType, int kRows, int kStride, int kThreads>
__device__ __forceinline__ void rows_to_fp16(int from, int row_bytes, int dim, __half* to,
                                             int first, int end) {
  // Eight lanes read the words of a block in a row. A warp's rows are 4 apart, which puts each in
  // another quarter of the banks.
  constexpr int kWarps = kThreads / 32;
  const int lane = int(threadIdx.x) % 32, word = lane % 8, warp = int(threadIdx.x) / 32;
#pragma unroll
  for (int i = warp; i < kRows / 4; i += kWarps) {
    const int row = i / 4 * 16 + lane / 8 * 4 + i % 4;
    const bool seen = row >= first && row < end;
    const RowWords<kType> words(from + row * row_bytes, word);
    __half* out = to + row * kStride + word * 4;
#pragma unroll 4
    for (int block = 0; block < dim / 32; ++block, out += 32)
      *reinterpret_cast<uint2*>(out) = seen ? words.fp16(block) : make_uint2(0, 0);
  }
}

}  // namespace rigcast::engine::cuda

#endif
