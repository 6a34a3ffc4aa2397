#include "engine/kernels/cuda/activations/random_rows.cuh"

#include "engine/cuda/launch.cuh"
#include "engine/synth/counter_rng.hpp"

namespace rigcast::engine::cuda {
namespace {

__global__ void random_values_kernel(std::uint64_t first, float* out, std::int64_t count) {
  const std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const std::uint64_t bits = mix_bits(first + std::uint64_t(i) + 0x9E3779B97F4A7C15u);
  out[i] = float(std::int32_t(bits)) * 0x1p-31f;
}

}  // namespace

void random_values(const Stream& stream, std::uint64_t first, float* out, std::int64_t count) {
  constexpr int kThreads = 256;
  const auto blocks = unsigned((count + kThreads - 1) / kThreads);
  launch(stream, {blocks, kThreads}, Start::kAfter, random_values_kernel, first, out, count);
}

}  // namespace rigcast::engine::cuda
