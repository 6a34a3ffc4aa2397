#include "engine/kernels/cuda/hopper/tile_groups.cuh"

#include <stdexcept>

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/activations/tile_order.hpp"

namespace rigcast::engine::cuda {
namespace {

constexpr int kThreads = 128, kTokens = 8, kStepsOfBlock = kThreads / kTokens, kSteps = 2;

__device__ __forceinline__ std::uint32_t clamped_pair(float a, float b) {
  constexpr float kMax = 65504.0f;  // comparisons leave NaN as it is
  const auto clamped = [](float x) { return x > kMax ? kMax : x < -kMax ? -kMax : x; };
  const __half2 pair = __floats2half2_rn(clamped(a), clamped(b));
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}

// Moves four columns of each of four units of one token: both halves of step `step`.
__device__ __forceinline__ void move_step(const float* from_row, std::int64_t columns, int step,
                                          int token, int tiled, __half* to) {
  const std::int64_t column = first_column_of_step(step);
  std::uint32_t words[2][4];
#pragma unroll
  for (int unit = 0; unit < 4; ++unit) {
    const std::int64_t at = column + unit * 32;
    float4 v{};
    if (at < columns) v = __ldcg(reinterpret_cast<const float4*>(from_row + at));
    words[0][unit] = clamped_pair(v.x, v.z);
    words[1][unit] = clamped_pair(v.y, v.w);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half)
    *reinterpret_cast<uint4*>(to + tiled_index(column + half, token, tiled)) =
        *reinterpret_cast<const uint4*>(words[half]);
}

// Eight neighbouring threads move a step of eight tokens, which lie beside each other when tiled. A
// thread moves kSteps of them: which row a token is takes several loads, one after the other.
__global__ void __launch_bounds__(kThreads)
    tile(const ExpertGroups g, const float* x, std::int64_t columns, __half* tiled) {
  allow_next_kernel();
  wait_for_inputs();
  const int group = g.first + int(blockIdx.z);
  if (group >= __ldcg(g.group_count)) return;
  const int* const from = &g.groups[group].expert;
  const int token = int(blockIdx.y) * kTokens + int(threadIdx.x) % kTokens;
  if (token >= __ldcg(from + 2)) return;
  const int row = __ldcg(g.order + __ldcg(from + 1) + token) / g.chosen.used;
  const std::int64_t padded = tiled_columns(columns);
  __half* const to = tiled + std::int64_t(blockIdx.z) * g.group_tokens * padded;
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    const int step = (int(blockIdx.x) * kSteps + i) * kStepsOfBlock + int(threadIdx.x) / kTokens;
    if (std::int64_t(step) * 16 < padded)
      move_step(x + row * columns, columns, step, token, g.group_tokens, to);
  }
}

}  // namespace

int tiled_group_tokens(int tokens, int used, int experts) {
  const int mean = tokens * used / experts;
  return mean <= 5 ? 8 : mean <= 12 ? 16 : mean <= 32 ? 32 : 64;
}

std::int64_t tiled_group_values(const ExpertGroups& g, std::int64_t columns) {
  return std::int64_t(visited_groups(g)) * g.group_tokens * tiled_columns(columns);
}

void tile_groups(const Stream& stream, const ExpertGroups& g, const float* x, std::int64_t columns,
                 __half* tiled) {
  if (columns % 32 != 0) throw std::invalid_argument("tile_groups: columns that it does not take");
  if (g.tokens == 0) return;
  constexpr int kColumns = 16 * kSteps * kStepsOfBlock;
  const dim3 grid(unsigned((tiled_columns(columns) + kColumns - 1) / kColumns),
                  unsigned(g.group_tokens / kTokens), unsigned(visited_groups(g)));
  launch(stream, {grid, dim3(kThreads)}, Start::kEarly, tile, g, x, columns, tiled);
}

}  // namespace rigcast::engine::cuda
