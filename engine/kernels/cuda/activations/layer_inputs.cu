#include "engine/kernels/cuda/activations/layer_inputs.cuh"

#include <cmath>

#include "engine/cuda/launch.cuh"

namespace rigcast::engine::cuda {
namespace {

constexpr int kWarps = 4;

struct Factors {
  float eps, scale, of_own;
};

// A warp for the input of one layer of one token.
__global__ void __launch_bounds__(32 * kWarps)
    finish(const LayerInputs in, const float* weight, Factors by) {
  allow_next_kernel();
  wait_for_inputs();
  const int lane = int(threadIdx.x) % 32, layer = int(blockIdx.x) * kWarps + int(threadIdx.x) / 32;
  if (layer >= in.layers) return;
  const std::int64_t at = (std::int64_t(blockIdx.y) * in.layers + layer) * in.width;
  float* const made = in.made + at;
  const float* const own = in.own + at;
  float squares = 0;
  for (int i = lane; i < in.width; i += 32) {
    const float x = made[i] * by.scale;
    squares += x * x;
  }
  for (int d = 16; d > 0; d /= 2) squares += __shfl_xor_sync(~0u, squares, d);
  const float normed = by.scale / sqrtf(squares / float(in.width) + by.eps);
  constexpr float kRootOfHalf = 0.70710678f;
  for (int i = lane; i < in.width; i += 32)
    made[i] = kRootOfHalf * (made[i] * normed * weight[i] + by.of_own * own[i]);
}

}  // namespace

void finish_layer_inputs(const Stream& stream, const LayerInputs& inputs, const float* weight,
                         float eps, float scale) {
  if (inputs.tokens < 1) return;
  const dim3 grid(unsigned((inputs.layers + kWarps - 1) / kWarps), unsigned(inputs.tokens));
  launch(stream, {grid, dim3(32 * kWarps)}, Start::kEarly, finish, inputs, weight,
         Factors{eps, scale, std::sqrt(float(inputs.width))});
}

}  // namespace rigcast::engine::cuda
