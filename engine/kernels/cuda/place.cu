#include "engine/kernels/cuda/place.cuh"

#include <algorithm>
#include <cmath>

#include "engine/cuda/launch.cuh"

namespace rigcast::engine::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kWidest = 256;              // a head
constexpr int kPairs = kWidest / 2 / 32;  // that a lane turns

struct Sizes {
  int dim = 0, tokens = 0;
  int heads_at_once = 1;  // of one token that a warp places: angles are then computed once
  float query_scale = 1;
};

// The angle is reduced in double; what F32 loses of the rest turns by the first term of its series.
__device__ Turn turn_of(int position, double frequency) {
  constexpr double kWhole = 6.283185307179586, kInverse = 0.15915494309189535;
  const double angle = double(position) * frequency;
  const double rest = fma(-rint(angle * kInverse), kWhole, angle);
  const float high = float(rest), low = float(rest - double(high));
  float s, c;
  sincosf(high, &s, &c);
  return {c - s * low, s + c * low};
}

__device__ float warp_sum(float v) {
  for (int lanes = 16; lanes > 0; lanes /= 2) v += __shfl_xor_sync(~0u, v, lanes);
  return v;
}

// A head in shared memory, seen by one warp.
__device__ void normalise(float* head, const float* weight, float eps, int dim, int lane) {
  float squares = 0;
  for (int i = lane; i < dim; i += 32) squares += head[i] * head[i];
  const float scale = 1.0f / sqrtf(warp_sum(squares) / float(dim) + eps);
  for (int i = lane; i < dim; i += 32) head[i] = head[i] * scale * weight[i];
  __syncwarp();
}

__device__ void rotate(float* head, const Turn (&turns)[kPairs], const Placement& p, int lane) {
  const int pairs = p.rope_dims / 2;
  const bool halves = p.pairs == RopePairs::kHalves;
#pragma unroll
  for (int k = 0; k < kPairs; ++k) {
    const int i = lane + 32 * k;
    if (i >= pairs) break;
    float& a = head[halves ? i : 2 * i];
    float& b = head[halves ? i + pairs : 2 * i + 1];
    const float a0 = a, b0 = b;
    a = a0 * turns[k].cos - b0 * turns[k].sin;
    b = a0 * turns[k].sin + b0 * turns[k].cos;
  }
  __syncwarp();
}

__device__ void put_halves(const float* head, float scale, int dim, __half* out, int lane) {
  for (int i = 4 * lane; i < dim; i += 128) {
    const float4 x = *reinterpret_cast<const float4*>(head + i);
    const __half2 low = __floats2half2_rn(x.x * scale, x.y * scale);
    const __half2 high = __floats2half2_rn(x.z * scale, x.w * scale);
    *reinterpret_cast<uint2*>(out + i) = make_uint2(*reinterpret_cast<const std::uint32_t*>(&low),
                                                    *reinterpret_cast<const std::uint32_t*>(&high));
  }
}

// The value of the largest magnitude among the lanes, of equals the first.
__device__ float largest_of(float x) {
  float most = fabsf(x);
  for (int lanes = 16; lanes > 0; lanes /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, lanes));
  const unsigned where = __ballot_sync(~0u, fabsf(x) == most);
  return __shfl_sync(~0u, x, max(0, __ffs(int(where)) - 1));
}

__device__ __half finite_half(float v) {
  return __float2half_rn(fminf(fmaxf(v, -65504.0f), 65504.0f));
}

// Quotients in double: in F32 they could become ties that they are not.
__device__ int nearest_level(float x, __half step, double low, double high) {
  const double d = double(__half2float(step));
  return d == 0 ? 0 : int(fmin(fmax(rint(double(x) / d), low), high));
}

__device__ void put_q8_0(const float* head, int dim, std::byte* out, int lane) {
  for (int i = 0; i < dim; i += 32, out += 34) {
    const float x = head[i + lane];
    const __half d = finite_half(__fdiv_rn(fabsf(largest_of(x)), 127.0f));
    if (lane == 0) *reinterpret_cast<__half*>(out) = d;
    out[2 + lane] = std::byte(nearest_level(x, d, -127, 127));
  }
}

__device__ void put_q4_0(const float* head, int dim, std::byte* out, int lane) {
  for (int i = 0; i < dim; i += 32, out += 18) {
    const float x = head[i + lane];
    const __half d = finite_half(largest_of(x) / -8.0f);
    if (lane == 0) *reinterpret_cast<__half*>(out) = d;
    const int level = nearest_level(x, d, -8, 7) + 8;
    const int upper = __shfl_down_sync(~0u, level, 16);
    if (lane < 16) out[2 + lane] = std::byte(level | upper << 4);
  }
}

__device__ void put(QuantFormat type, const float* head, int dim, std::byte* out, int lane) {
  if (type == QuantFormat::kF16)
    put_halves(head, 1.0f, dim, reinterpret_cast<__half*>(out), lane);
  else if (type == QuantFormat::kQ8_0)
    put_q8_0(head, dim, out, lane);
  else
    put_q4_0(head, dim, out, lane);
}

__device__ void load(const ProjectedRows& from, int token, int head, int dim, float* to, int lane) {
  const float* row = from.rows + token * from.stride + head * dim;
  for (int i = 4 * lane; i < dim; i += 128) {
    float4 x = __ldcs(reinterpret_cast<const float4*>(row + i));
    if (from.bias) {
      const float4 b = *reinterpret_cast<const float4*>(from.bias + head * dim + i);
      x = make_float4(x.x + b.x, x.y + b.y, x.z + b.z, x.w + b.w);
    }
    *reinterpret_cast<float4*>(to + i) = x;
  }
  __syncwarp();
}

// Heads are counted through those of queries, keys and values.
__device__ void place_head(const Placement& p, const Cache& cache, int layer, const Sizes& s,
                           int token, int head, int position, const Turn (&turns)[kPairs],
                           float* own, __half* queries) {
  const int lane = int(threadIdx.x) % 32;
  if (head < p.heads) {
    load(p.q, token, head, s.dim, own, lane);
    if (p.q_norm) normalise(own, p.q_norm, p.norm_eps, s.dim, lane);
    rotate(own, turns, p, lane);
    put_halves(own, s.query_scale, s.dim, queries + (std::int64_t(token) * p.heads + head) * s.dim,
               lane);
    return;
  }
  std::byte* block = cache.blocks[position / cache.block_tokens];
  const std::int64_t row = position % cache.block_tokens;
  if (const int k_head = head - p.heads; k_head < cache.kv_heads) {
    load(p.k, token, k_head, s.dim, own, lane);
    if (p.k_norm) normalise(own, p.k_norm, p.norm_eps, s.dim, lane);
    rotate(own, turns, p, lane);
    put(cache.k_type, own, s.dim, block + cache.keys_at(layer, k_head) + row * cache.k_row, lane);
  } else {
    const int v_head = k_head - cache.kv_heads;
    load(p.v, token, v_head, s.dim, own, lane);
    put(cache.v_type, own, s.dim, block + cache.values_at(layer, v_head) + row * cache.v_row, lane);
  }
}

__global__ void turn_pairs(const double* frequencies, int pairs, const int* position, Turn* turns) {
  const int token = int(blockIdx.x);
  for (int i = int(threadIdx.x); i < pairs; i += int(blockDim.x))
    turns[std::int64_t(token) * pairs + i] = turn_of(*position + token, frequencies[i]);
}

// A warp for some heads of one token.
__global__ void __launch_bounds__(32 * kWarps)
    place_heads(Placement p, Cache cache, int layer, Sizes s, const int* position,
                __half* queries) {
  __shared__ __align__(16) float rows[kWarps][kWidest];
  let_next_start();
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int all = p.heads + 2 * cache.kv_heads;
  const int first = (int(blockIdx.x) * kWarps + warp) * s.heads_at_once;
  const int begin = *position, pairs = p.rope_dims / 2;
  bool waited = false;
  for (int token = int(blockIdx.y); token < s.tokens; token += int(gridDim.y)) {
    const int at = begin + token;
    Turn turns[kPairs];
#pragma unroll
    for (int k = 0; k < kPairs; ++k)
      if (lane + 32 * k < pairs) turns[k] = p.turns[std::int64_t(token) * pairs + lane + 32 * k];
    if (!waited) wait_for_inputs();
    waited = true;
    for (int head = first; head < min(all, first + s.heads_at_once); ++head) {
      place_head(p, cache, layer, s, token, head, at, turns, rows[warp], queries);
      __syncwarp();
    }
  }
}

}  // namespace

float query_scale(int head_dim) { return float(1.4426950408889634 / std::sqrt(double(head_dim))); }

void make_turns(const Stream& stream, const double* frequencies, int pairs, int tokens,
                const int* position, Turn* turns) {
  if (tokens < 1 || pairs < 1) return;
  launch(stream, {dim3(unsigned(tokens)), dim3(unsigned(std::min(pairs, 128)))}, Start::kAfter,
         turn_pairs, frequencies, pairs, position, turns);
}

void place(const Stream& stream, const Placement& placement, const Cache& cache, int layer,
           int tokens, const int* position, __half* queries) {
  if (tokens < 1) return;
  const Sizes sizes{cache.head_dim, tokens, tokens < 32 ? 1 : 8, query_scale(cache.head_dim)};
  const int heads = placement.heads + 2 * cache.kv_heads, of_block = kWarps * sizes.heads_at_once;
  const dim3 grid(unsigned((heads + of_block - 1) / of_block), unsigned(std::min(tokens, 65535)));
  launch(stream, {grid, dim3(32 * kWarps)}, Start::kEarly, place_heads, placement, cache, layer,
         sizes, position, queries);
}

}  // namespace rigcast::engine::cuda
