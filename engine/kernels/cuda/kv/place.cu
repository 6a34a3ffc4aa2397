#include "engine/kernels/cuda/kv/place.cuh"

#include <algorithm>
#include <cmath>

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/kv/place_device.cuh"

namespace rigcast::engine::cuda {
namespace {

constexpr int kWarps = 4;

struct Sizes {
  int dim = 0, tokens = 0;
  int heads_at_once = 1;  // heads of one token that a warp computes: it loads the angles once
  float query_scale = 1;
};

// The angle is reduced in double. The part that F32 loses is applied by the first term of its
// series.
__device__ Turn turn_of(int position, double frequency) {
  constexpr double kWhole = 6.283185307179586, kInverse = 0.15915494309189535;
  const double angle = double(position) * frequency;
  const double rest = fma(-rint(angle * kInverse), kWhole, angle);
  const float high = float(rest), low = float(rest - double(high));
  float s, c;
  sincosf(high, &s, &c);
  return {c - s * low, s + c * low};
}

// Heads are numbered: queries first, then keys, then values.
__device__ void place_head(const NewHeads& heads, const Cache& cache, int layer, const Sizes& s,
                           int head, int position, __half* queries) {
  if (head < heads.p.heads) {
    heads.query(head);
    const std::int64_t row = std::int64_t(heads.token) * heads.p.heads + head;
    return put_halves(heads.own, s.query_scale, s.dim, queries + row * s.dim, heads.lane);
  }
  std::byte* block = cache.blocks[position / cache.block_tokens];
  const std::int64_t row = position % cache.block_tokens;
  if (const int k_head = head - heads.p.heads; k_head < cache.kv_heads) {
    heads.key(k_head);
    std::byte* to = block + cache.keys_at(layer, k_head) + row * cache.k_row;
    put_row(cache.k_type, heads.own, s.dim, to, heads.lane);
  } else {
    const int v_head = k_head - cache.kv_heads;
    heads.value(v_head);
    std::byte* to = block + cache.values_at(layer, v_head) + row * cache.v_row;
    put_row(cache.v_type, heads.own, s.dim, to, heads.lane);
  }
}

__global__ void turn_pairs(const double* frequencies, int pairs, const int* position, Turn* turns) {
  const int token = int(blockIdx.x);
  for (int i = int(threadIdx.x); i < pairs; i += int(blockDim.x))
    turns[std::int64_t(token) * pairs + i] = turn_of(*position + token, frequencies[i]);
}

// One warp for some heads of one token.
__global__ void __launch_bounds__(32 * kWarps)
    place_heads(Placement p, Cache cache, int layer, Sizes s, const int* position,
                __half* queries) {
  __shared__ __align__(16) float rows[kWarps][kWidestHead];
  let_next_start();
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int all = p.heads + 2 * cache.kv_heads;
  const int first = (int(blockIdx.x) * kWarps + warp) * s.heads_at_once;
  const int begin = *position;
  bool waited = false;
  for (int token = int(blockIdx.y); token < s.tokens; token += int(gridDim.y)) {
    const LaneTurns turns(p, token, lane);
    if (!waited) wait_for_inputs();
    waited = true;
    const NewHeads heads{p, turns, token, s.dim, lane, rows[warp]};
    for (int head = first; head < min(all, first + s.heads_at_once); ++head) {
      place_head(heads, cache, layer, s, head, begin + token, queries);
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
