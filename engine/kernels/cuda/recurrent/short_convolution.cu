#include "engine/kernels/cuda/recurrent/short_convolution.cuh"

#include <algorithm>

#include "engine/cuda/launch.cuh"

namespace rigcast::engine::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kRowsTogether = 16;  // that a thread computes, one after the other

// What is convolved: b * x of a row of the step.
__device__ __forceinline__ float gated(const ShortConvolution& m, std::int64_t row, int channel) {
  const float* const own = m.mixed + row * 3 * m.width + channel;
  return own[0] * own[2 * m.width];
}

__device__ __forceinline__ float out_gate(const ShortConvolution& m, std::int64_t row,
                                          int channel) {
  return m.mixed[row * 3 * m.width + m.width + channel];
}

// A thread per channel; warps are inside the row, or none of their lanes is.
__global__ void __launch_bounds__(kThreads)
    convolve_single_rows(const ShortConvolution m, const MixerRows rows, const MixerOutputs out) {
  allow_next_kernel();
  const int channel = int(blockIdx.x) * kThreads + int(threadIdx.x), row = int(blockIdx.y);
  if (channel >= m.width) return;
  const int state = rows.state[row], position = rows.position[row];
  float* const last = m.states.of(state) + channel;
  const float* const taps = m.taps + std::int64_t(channel) * m.kernel;
  float sum = 0;
  for (int back = m.kernel - 1; back > 0; --back)
    if (position >= back)
      sum += taps[m.kernel - 1 - back] * last[std::int64_t((position - back) % m.kernel) * m.width];
  const float newest = taps[m.kernel - 1];
  wait_for_inputs();
  const float now = gated(m, row, channel);
  if (state >= 0) last[std::int64_t(position % m.kernel) * m.width] = now;
  const float x = out_gate(m, row, channel) * (sum + newest * now);
  put(out, row, m.width, channel, state >= 0 ? x : 0.0f);
}

__global__ void __launch_bounds__(kThreads)
    convolve_rows(const ShortConvolution m, const MixerRows rows, const MixerOutputs out) {
  allow_next_kernel();
  const int channel = int(blockIdx.x) * kThreads + int(threadIdx.x);
  if (channel >= m.width) return;
  const int position = *rows.position;
  const float* const last = m.states.of(*rows.state) + channel;
  const float* const taps = m.taps + std::int64_t(channel) * m.kernel;
  const int first = int(blockIdx.y) * kRowsTogether;
  const int end = min(first + kRowsTogether, rows.rows);
  wait_for_inputs();
  for (int row = first; row < end; ++row) {
    float sum = 0;
    for (int t = 0; t < m.kernel; ++t) {
      const int from = row - (m.kernel - 1) + t;
      if (from >= 0)
        sum += taps[t] * gated(m, from, channel);
      else if (position + from >= 0)
        sum += taps[t] * last[std::int64_t((position + from) % m.kernel) * m.width];
    }
    put(out, row, m.width, channel, out_gate(m, row, channel) * sum);
  }
}

// Keeps the last tokens of rows together, once all of these are convolved.
__global__ void __launch_bounds__(kThreads)
    keep_last_rows(const ShortConvolution m, const MixerRows rows) {
  allow_next_kernel();
  const int channel = int(blockIdx.x) * kThreads + int(threadIdx.x);
  if (channel >= m.width) return;
  const int position = *rows.position;
  float* const last = m.states.of(*rows.state) + channel;
  wait_for_inputs();
  for (int row = max(0, rows.rows - m.kernel); row < rows.rows; ++row)
    last[std::int64_t((position + row) % m.kernel) * m.width] = gated(m, row, channel);
}

unsigned blocks_of(const ShortConvolution& m) {
  return unsigned((m.width + kThreads - 1) / kThreads);
}

}  // namespace

void convolve_apart(const Stream& stream, const ShortConvolution& mixer, const MixerRows& rows,
                    const MixerOutputs& out) {
  launch(stream, {dim3(blocks_of(mixer), unsigned(rows.rows)), dim3(kThreads)}, Start::kEarly,
         convolve_single_rows, mixer, rows, out);
}

void convolve_together(const Stream& stream, const ShortConvolution& mixer, const MixerRows& rows,
                       const MixerOutputs& out) {
  const auto tiles = unsigned((rows.rows + kRowsTogether - 1) / kRowsTogether);
  launch(stream, {dim3(blocks_of(mixer), tiles), dim3(kThreads)}, Start::kEarly, convolve_rows,
         mixer, rows, out);
  launch(stream, {dim3(blocks_of(mixer)), dim3(kThreads)}, Start::kEarly, keep_last_rows, mixer,
         rows);
}

}  // namespace rigcast::engine::cuda
