#include "engine/kernels/cuda/kv/rope_and_store.cuh"

#include <algorithm>
#include <cmath>

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/kv/rope_device.cuh"

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
__device__ RopeAngle rope_angle(int position, double frequency) {
  constexpr double kWhole = 6.283185307179586, kInverse = 0.15915494309189535;
  const double angle = double(position) * frequency;
  const double rest = fma(-rint(angle * kInverse), kWhole, angle);
  const float high = float(rest), low = float(rest - double(high));
  float s, c;
  sincosf(high, &s, &c);
  return {c - s * low, s + c * low};
}

// Heads are numbered: queries first, then keys, then values.
template <int kRoom>
__device__ void rope_and_store_head(const NewHeads<kRoom>& heads, const Cache& cache, int layer,
                                    const Sizes& s, int head, int position, __half* queries) {
  if (head < heads.p.heads) {
    heads.compute(HeadKind::kQuery, head);
    const std::int64_t row = std::int64_t(heads.token) * heads.p.heads + head;
    const float scale = s.query_scale * heads.p.temperature.at(position);
    return put_fp16(heads.own, scale, s.dim, queries + row * s.dim, heads.lane);
  }
  std::byte* block = cache.blocks[position / cache.block_tokens];
  const std::int64_t row = position % cache.block_tokens;
  if (const int k_head = head - heads.p.heads; k_head < cache.kv_heads) {
    heads.compute(HeadKind::kKey, k_head);
    std::byte* to = block + cache.keys_at(layer, k_head) + row * cache.k_row;
    put_row(cache.k_type, heads.own, s.dim, to, heads.lane);
  } else {
    const int v_head = k_head - cache.kv_heads;
    heads.compute(HeadKind::kValue, v_head);
    std::byte* to = block + cache.values_at(layer, v_head) + row * cache.v_row;
    put_row(cache.v_type, heads.own, s.dim, to, heads.lane);
  }
}

__global__ void compute_angles_kernel(const double* frequencies, int pairs, const StepRows rows,
                                      float magnitude, RopeAngle* rope_cos_sin) {
  const int token = int(blockIdx.x);
  for (int i = int(threadIdx.x); i < pairs; i += int(blockDim.x)) {
    const RopeAngle angle = rope_angle(rows.position_of(token), frequencies[i]);
    rope_cos_sin[std::int64_t(token) * pairs + i] = {angle.cos * magnitude, angle.sin * magnitude};
  }
}

// One warp for some heads of one token.
template <int kRoom>
__global__ void __launch_bounds__(32 * kWarps)
    rope_and_store_heads(NewTokenInputs p, Cache cache, int layer, Sizes s, const StepRows rows,
                         __half* queries) {
  __shared__ __align__(16) float heads_of_warps[kWarps][kRoom];
  allow_next_kernel();
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int all = p.heads + (p.stores ? 2 * cache.kv_heads : 0);
  const int first = (int(blockIdx.x) * kWarps + warp) * s.heads_at_once;
  bool waited = false;
  for (int token = int(blockIdx.y); token < s.tokens; token += int(gridDim.y)) {
    const LaneRopeAngles<kRoom> rope_cos_sin(p, token, lane);
    if (!waited) wait_for_inputs();
    waited = true;
    const NewHeads<kRoom> heads{p, rope_cos_sin, token, s.dim, lane, heads_of_warps[warp]};
    const Cache own = cache.of_sequence(rows.sequence_of(token));
    const int position = rows.position_of(token);
    for (int head = first; head < min(all, first + s.heads_at_once); ++head) {
      rope_and_store_head(heads, own, layer, s, head, position, queries);
      __syncwarp();
    }
  }
}

// A warp takes several of a token's heads only where there are more than the GPU has warps for:
// they take as long as so many warps, one after the other.
int heads_at_once(std::int64_t all) {
  constexpr std::int64_t kWarpsOfProcessor = 48, kMax = 8;
  return int(std::clamp<std::int64_t>(all / (kWarpsOfProcessor * device_facts().multiprocessors), 1,
                                      kMax));
}

}  // namespace

float query_scale(int head_dim) { return float(1.4426950408889634 / std::sqrt(double(head_dim))); }

float query_scale(const NewTokenInputs& inputs, int head_dim) {
  if (inputs.score_scale == 0) return query_scale(head_dim);
  return float(1.4426950408889634 * double(inputs.score_scale));
}

void compute_rope_angles(const Stream& stream, const double* frequencies, int pairs, int tokens,
                         const StepRows& rows, RopeAngle* rope_cos_sin, float magnitude) {
  if (tokens < 1 || pairs < 1) return;
  launch(stream, {dim3(unsigned(tokens)), dim3(unsigned(std::min(pairs, 128)))}, Start::kAfter,
         compute_angles_kernel, frequencies, pairs, rows, magnitude, rope_cos_sin);
}

void rope_and_store(const Stream& stream, const NewTokenInputs& inputs, const Cache& cache,
                    int layer, int tokens, const StepRows& rows, __half* queries) {
  if (tokens < 1) return;
  const int heads = inputs.heads + (inputs.stores ? 2 * cache.kv_heads : 0);
  const Sizes sizes{cache.head_dim, tokens, heads_at_once(std::int64_t(tokens) * heads),
                    query_scale(inputs, cache.head_dim)};
  const int of_block = kWarps * sizes.heads_at_once;
  const dim3 grid(unsigned((heads + of_block - 1) / of_block), unsigned(std::min(tokens, 65535)));
  auto* const kernel = cache.head_dim <= 256 ? rope_and_store_heads<kHeadRoom<256>>
                                             : rope_and_store_heads<kMaxHeadDim>;
  launch(stream, {grid, dim3(32 * kWarps)}, Start::kEarly, kernel, inputs, cache, layer, sizes,
         rows, queries);
}

}  // namespace rigcast::engine::cuda
