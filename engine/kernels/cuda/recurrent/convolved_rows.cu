#include "engine/kernels/cuda/recurrent/convolved_rows.cuh"

#include <stdexcept>

#include "engine/cuda/launch.cuh"

namespace rigcast::engine::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kRowsTogether = 16;  // that a thread convolves, one after the other
constexpr int kMaxNormThreads = 1024;

// A thread per channel. Its window moves down the rows.
__global__ void __launch_bounds__(kThreads)
    convolve(const ConvolvedRows c, const MixerRows rows, float* to) {
  allow_next_kernel();
  const int channel = int(blockIdx.x) * kThreads + int(threadIdx.x);
  if (channel >= c.width) return;
  const int position = *rows.position;
  const float* const last = c.last.of(*rows.state) + channel;
  const float4 taps = *reinterpret_cast<const float4*>(c.taps + std::int64_t(channel) * kMixerTaps);
  const float bias = c.bias ? c.bias[channel] : 0.0f;
  const int first = int(blockIdx.y) * kRowsTogether, end = min(first + kRowsTogether, rows.rows);
  wait_for_inputs();
  const int place = c.by_group.channel(channel);
  const auto at = [&](int row) {
    if (row >= 0) return c.from[row * c.stride + place];
    const int before = position + row;
    return before >= 0 ? last[std::int64_t(before % kMixerTaps) * c.width] : 0.0f;
  };
  float a = at(first - 3), b = at(first - 2), d = at(first - 1);
  for (int row = first; row < end; ++row) {
    const float now = at(row);
    const float sum = taps.x * a + taps.y * b + taps.z * d + taps.w * now + bias;
    to[std::int64_t(row) * c.width + channel] = silu_of(sum);
    a = b, b = d, d = now;
  }
}

__global__ void __launch_bounds__(kThreads) keep(const ConvolvedRows c, const MixerRows rows) {
  allow_next_kernel();
  const int channel = int(blockIdx.x) * kThreads + int(threadIdx.x);
  if (channel >= c.width) return;
  const int position = *rows.position;
  float* const last = c.last.of(*rows.state) + channel;
  wait_for_inputs();
  for (int row = max(0, rows.rows - kMixerTaps); row < rows.rows; ++row)
    last[std::int64_t((position + row) % kMixerTaps) * c.width] =
        c.from[row * c.stride + c.by_group.channel(channel)];
}

__device__ float sum_over_block(float x) {
  __shared__ float warps[32];
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  x = sum_over_lanes(x, 32);
  if (lane == 0) warps[warp] = x;
  __syncthreads();
  x = lane < int(blockDim.x) / 32 ? warps[lane] : 0.0f;
  return sum_over_lanes(x, 32);
}

// A block per group and row; its warps have whole pieces of 32 values. A thread has `kEach` values
// in registers, so that all are on their way at once.
template <int kEach>
__global__ void __launch_bounds__(kMaxNormThreads)
    norm_groups(const GatedNorm n, const MixerOutputs out) {
  allow_next_kernel();
  const int group = int(blockIdx.x), begin = group * n.width;
  const std::int64_t row = blockIdx.y;
  const float* const x = n.x + row * n.x_stride + begin;
  const float* const gates =
      n.gates + row * n.gates_stride + (n.by_group.groups > 0 ? n.by_group.gates(group) : begin);
  const float* const weight = n.weight + (n.one_weight ? 0 : begin);
  const auto place = [](int i) { return i * int(blockDim.x) + int(threadIdx.x); };
  float weights[kEach], values[kEach], gated[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i)
    weights[i] = n.weight && place(i) < n.width ? weight[place(i)] : 1.0f;
  wait_for_inputs();
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const bool is_there = place(i) < n.width;
    values[i] = is_there ? x[place(i)] : 0.0f;
    gated[i] = is_there ? gates[place(i)] : 0.0f;
  }
  float squares = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    gated[i] = silu_of(gated[i]);
    if (n.gates_before) values[i] *= gated[i];
    squares += values[i] * values[i];
  }
  const float scale =
      n.weight ? 1.0f / sqrtf(sum_over_block(squares) / float(n.width) + n.eps) : 1.0f;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const float y = values[i] * scale * weights[i];
    if (place(i) < n.width)
      put(out, row, n.groups * n.width, begin + place(i), n.gates_before ? y : y * gated[i]);
  }
}

template <int kEach>
void launch_norm(const Stream& stream, const GatedNorm& norm, const dim3& grid,
                 const MixerOutputs& out) {
  const int warps = (norm.width + 32 * kEach - 1) / (32 * kEach);
  launch(stream, {grid, dim3(unsigned(32 * warps))}, Start::kEarly, norm_groups<kEach>, norm, out);
}

unsigned blocks_of(const ConvolvedRows& c) { return unsigned((c.width + kThreads - 1) / kThreads); }

}  // namespace

void convolve_and_silu(const Stream& stream, const ConvolvedRows& convolved, const MixerRows& rows,
                       float* to) {
  const auto tiles = unsigned((rows.rows + kRowsTogether - 1) / kRowsTogether);
  launch(stream, {dim3(blocks_of(convolved), tiles), dim3(kThreads)}, Start::kEarly, convolve,
         convolved, rows, to);
}

void keep_last(const Stream& stream, const ConvolvedRows& convolved, const MixerRows& rows) {
  launch(stream, {dim3(blocks_of(convolved)), dim3(kThreads)}, Start::kEarly, keep, convolved,
         rows);
}

void gated_norm(const Stream& stream, const GatedNorm& norm, int rows, const MixerOutputs& out) {
  const dim3 grid(unsigned(norm.groups), unsigned(rows));
  if (norm.width <= kMaxNormThreads) return launch_norm<1>(stream, norm, grid, out);
  if (norm.width <= 4 * kMaxNormThreads) return launch_norm<4>(stream, norm, grid, out);
  if (norm.width > kMaxNormWidth) throw std::invalid_argument("gated_norm: groups are too wide");
  launch_norm<kMaxNormWidth / kMaxNormThreads>(stream, norm, grid, out);
}

}  // namespace rigcast::engine::cuda
