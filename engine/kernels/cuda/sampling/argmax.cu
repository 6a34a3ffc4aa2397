#include "engine/kernels/cuda/sampling/argmax.cuh"

#include <algorithm>

#include "core/base/error.hpp"
#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/sampling/logit_rank.cuh"

namespace rigcast::engine::cuda {
namespace {

constexpr int kWarp = 32;
constexpr unsigned kThreads = 256;
constexpr unsigned kMaxBlocks = 128;
constexpr int kLoads = 8;  // of a thread, all under way before the first is compared

__device__ unsigned long long block_largest(unsigned long long mine) {
  __shared__ unsigned long long of_warp[kThreads / kWarp];
  for (int step = kWarp / 2; step > 0; step /= 2)
    mine = max(mine, __shfl_xor_sync(~0u, mine, step));
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = mine;
  __syncthreads();
  for (const unsigned long long other : of_warp) mine = max(mine, other);
  return mine;
}

// grid: blocks, rows. The block of a row that ends last writes the result, and resets the state.
__global__ void argmax_kernel(const float* rows, int count, ArgmaxState* states,
                              ArgmaxResult result) {
  const float* const logits = rows + std::int64_t(blockIdx.y) * count;
  ArgmaxState* const state = states + blockIdx.y;
  wait_for_inputs();
  allow_next_kernel();
  unsigned long long best = 0;
  const int step = int(gridDim.x * kThreads);
  for (int first = int(blockIdx.x * kThreads + threadIdx.x); first < count;
       first += kLoads * step) {
    float logit[kLoads];
#pragma unroll
    for (int k = 0; k < kLoads; ++k)
      logit[k] = k * step < count - first ? logits[first + k * step] : 0;
#pragma unroll
    for (int k = 0; k < kLoads; ++k)
      if (k * step < count - first) best = max(best, rank_of(logit[k], first + k * step));
  }
  best = block_largest(best);
  if (threadIdx.x != 0) return;
  atomicMax(&state->best, best);
  __threadfence();
  if (atomicAdd(&state->done, 1u) + 1 < gridDim.x) return;
  __threadfence();
  const unsigned long long all = atomicExch(&state->best, 0ull);
  state->done = 0;
  result.put(blockIdx.y, index_of_rank(all));
}

}  // namespace

void argmax(const Stream& stream, const float* logits, int count, ArgmaxState* states,
            const ArgmaxResult& result, int rows) {
  RIGCAST_ASSERT(count > 0 && rows > 0);
  // Each thread reads several logits: more blocks with less work would only lengthen the wait at
  // the end.
  const unsigned blocks = (unsigned(count) + 4 * kThreads - 1) / (4 * kThreads);
  const dim3 grid(std::min(blocks, kMaxBlocks), unsigned(rows));
  launch(stream, {grid, dim3(kThreads)}, Start::kEarly, argmax_kernel, logits, count, states,
         result);
}

}  // namespace rigcast::engine::cuda
