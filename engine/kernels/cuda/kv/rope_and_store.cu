#include "engine/kernels/cuda/kv/rope_and_store.cuh"

#include <algorithm>
#include <cmath>

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/kv/lane_heads.cuh"
#include "engine/kernels/cuda/kv/rope_device.cuh"

namespace rigcast::engine::cuda {
namespace {

constexpr int kWarps = 4;

struct Sizes {
  int dim = 0, tokens = 0;
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

// One of a token's heads, which are numbered: queries first, then keys, then values.
struct HeadOfToken {
  HeadKind kind;
  int head;

  __device__ HeadOfToken(const NewTokenInputs& p, const Cache& cache, int number) {
    const int after_queries = number - p.heads, after_keys = after_queries - cache.kv_heads;
    kind = after_queries < 0 ? HeadKind::kQuery
           : after_keys < 0  ? HeadKind::kKey
                             : HeadKind::kValue;
    head = after_queries < 0 ? number : after_keys < 0 ? after_queries : after_keys;
  }
};

__global__ void compute_angles_kernel(const double* frequencies, int pairs, const StepRows rows,
                                      float magnitude, RopeAngle* rope_cos_sin) {
  const int token = int(blockIdx.x);
  for (int i = int(threadIdx.x); i < pairs; i += int(blockDim.x)) {
    const RopeAngle angle = rope_angle(rows.position_of(token), frequencies[i]);
    rope_cos_sin[std::int64_t(token) * pairs + i] = {angle.cos * magnitude, angle.sin * magnitude};
  }
}

// Where a key or a value goes.
struct CacheRow {
  QuantFormat type;
  std::byte* to;

  __device__ CacheRow(const Cache& cache, int layer, const HeadOfToken& at, int position) {
    const int block = position / cache.block_tokens;
    const std::int64_t row = position - block * cache.block_tokens;
    const bool key = at.kind == HeadKind::kKey;
    type = key ? cache.k_type : cache.v_type;
    to = cache.blocks[block] + (key ? cache.keys_at(layer, at.head) + row * cache.k_row
                                    : cache.values_at(layer, at.head) + row * cache.v_row);
  }
};

// A warp has as many of a token's heads as its lanes hold, of one token after the other.
template <int kDim>
__global__ void __launch_bounds__(32 * kWarps, 4)
    rope_and_store_heads(const __grid_constant__ NewTokenInputs p,
                         const __grid_constant__ Cache cache, int layer, Sizes s,
                         const StepRows rows, __half* queries) {
  using Lanes = HeadLanes<kDim>;
  __shared__ __align__(16) float heads_of_warps[kWarps][Lanes::kHeads][kDim];
  allow_next_kernel();
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int all = p.heads + (p.stores ? 2 * cache.kv_heads : 0);
  const int first = (int(blockIdx.x) * kWarps + warp) * Lanes::kHeads;
  const int number = first + lane / Lanes::kLanes;
  const bool quantized = cache.k_type != QuantFormat::kF16 || cache.v_type != QuantFormat::kF16;
  if (first >= all) return;
  float(&shared)[Lanes::kHeads][kDim] = heads_of_warps[warp];
  const HeadOfToken at(p, cache, min(number, all - 1));
  for (int token = int(blockIdx.y); token < s.tokens; token += int(gridDim.y)) {
    const NewTokenInputs of_token = p.of_token(token);
    LaneHead<kDim> head(of_token, s.dim, lane, shared[lane / Lanes::kLanes]);
    head.prepare(at.kind, at.head);
    wait_for_inputs();
    head.load(number < all);
    const Cache own = cache.of_sequence(rows.sequence_of(token));
    const int position = rows.position_of(token);
    const CacheRow row(own, layer, at, position);  // not of a query
    head.compute();
    if (number < all) {
      if (at.kind == HeadKind::kQuery) {
        const std::int64_t to = std::int64_t(token) * p.heads + at.head;
        head.store_fp16(s.query_scale * p.temperature.at(position), queries + to * s.dim);
      } else if (row.type == QuantFormat::kF16) {
        head.store_fp16(1.0f, reinterpret_cast<__half*>(row.to));
      }
    }
    if (!quantized || first + Lanes::kHeads <= p.heads) continue;
    head.show();
    __syncwarp();
    for (int i = max(0, p.heads - first); i < min(Lanes::kHeads, all - first); ++i) {
      const CacheRow to(own, layer, HeadOfToken(p, cache, first + i), position);
      if (to.type != QuantFormat::kF16) put_row(to.type, shared[i], s.dim, to.to, lane);
    }
    __syncwarp();
  }
}

template <int kDim>
void launch_heads(const Stream& stream, const NewTokenInputs& inputs, const Cache& cache, int layer,
                  const Sizes& s, const StepRows& rows, __half* queries) {
  constexpr int kOfBlock = kWarps * HeadLanes<kDim>::kHeads, kMaxTokensOfBlock = 4;
  constexpr std::int64_t kBlocksOfProcessor = 16;
  const int heads = inputs.heads + (inputs.stores ? 2 * cache.kv_heads : 0);
  const int blocks = (heads + kOfBlock - 1) / kOfBlock;
  // A block has several tokens only where there are enough for all multiprocessors.
  const std::int64_t each =
      std::int64_t(blocks) * s.tokens / (kBlocksOfProcessor * device_facts().multiprocessors);
  const int of_block = int(std::clamp<std::int64_t>(each, 1, kMaxTokensOfBlock));
  const int parts = std::min((s.tokens + of_block - 1) / of_block, 65535);
  launch(stream, {dim3(unsigned(blocks), unsigned(parts)), dim3(32 * kWarps)}, Start::kEarly,
         rope_and_store_heads<kDim>, inputs, cache, layer, s, rows, queries);
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
  const Sizes sizes{cache.head_dim, tokens, query_scale(inputs, cache.head_dim)};
  const auto run = sizes.dim <= 64    ? launch_heads<64>
                   : sizes.dim <= 96  ? launch_heads<96>
                   : sizes.dim <= 128 ? launch_heads<128>
                   : sizes.dim <= 256 ? launch_heads<256>
                                      : launch_heads<512>;
  run(stream, inputs, cache, layer, sizes, rows, queries);
}

}  // namespace rigcast::engine::cuda
