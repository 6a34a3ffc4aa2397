#include "engine/kernels/cuda/hopper/tile_groups.cuh"

#include <stdexcept>

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/activations/tile_order.hpp"

namespace rigcast::engine::cuda {
namespace {

constexpr int kThreads = 256;

__device__ __forceinline__ __half2 clamped_pair(float a, float b) {
  constexpr float kMax = 65504.0f;  // comparisons leave NaN as it is
  const auto clamped = [](float x) { return x > kMax ? kMax : x < -kMax ? -kMax : x; };
  return __floats2half2_rn(clamped(a), clamped(b));
}

// A thread moves four columns of one token of a group.
__global__ void __launch_bounds__(kThreads)
    tile(const ExpertGroups g, const float* x, int fours, __half* tiled) {
  allow_next_kernel();
  wait_for_inputs();
  if (int(blockIdx.z) >= __ldcg(g.group_count)) return;
  const int* const from = &g.groups[blockIdx.z].expert;
  const int first = __ldcg(from + 1), count = __ldcg(from + 2), token = int(blockIdx.y);
  const int i = int(blockIdx.x) * kThreads + int(threadIdx.x);
  if (token >= count || i >= fours) return;
  const int row = __ldcg(g.order + first + token) / g.chosen.used;
  const float4 v = __ldcg(reinterpret_cast<const float4*>(x) + std::int64_t(row) * fours + i);
  __half* const to = tiled + std::int64_t(blockIdx.z) * g.group_tokens * fours * 4;
  const std::int64_t column = std::int64_t(i) * 4;
  *reinterpret_cast<__half2*>(to + tiled_index(column, token, g.group_tokens)) =
      clamped_pair(v.x, v.z);
  *reinterpret_cast<__half2*>(to + tiled_index(column + 1, token, g.group_tokens)) =
      clamped_pair(v.y, v.w);
}

}  // namespace

int tiled_group_tokens(int tokens, int used, int experts) {
  const int mean = tokens * used / experts;
  return mean <= 4 ? 8 : mean <= 10 ? 16 : mean <= 24 ? 32 : 64;
}

std::int64_t tiled_group_values(const ExpertGroups& g, std::int64_t columns) {
  return std::int64_t(most_groups(g.tokens, g.chosen.used, g.experts, g.group_tokens)) *
         g.group_tokens * columns;
}

void tile_groups(const Stream& stream, const ExpertGroups& g, const float* x, std::int64_t columns,
                 __half* tiled) {
  if (columns % kTileColumns != 0)
    throw std::invalid_argument("tile_groups: columns that it does not take");
  if (g.tokens == 0) return;
  const int fours = int(columns / 4);
  const dim3 grid(unsigned((fours + kThreads - 1) / kThreads), unsigned(g.group_tokens),
                  unsigned(most_groups(g.tokens, g.chosen.used, g.experts, g.group_tokens)));
  launch(stream, {grid, dim3(kThreads)}, Start::kEarly, tile, g, x, fours, tiled);
}

}  // namespace rigcast::engine::cuda
