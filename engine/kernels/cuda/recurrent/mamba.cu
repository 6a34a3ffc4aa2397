#include "engine/kernels/cuda/recurrent/mamba.cuh"

#include <algorithm>

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/recurrent/convolved_rows.cuh"
#include "engine/kernels/cuda/recurrent/head_state.cuh"
#include "engine/kernels/cuda/recurrent/scan_tiles.cuh"

namespace rigcast::engine::cuda {
namespace {

__device__ __forceinline__ int inner(const Mamba& m) { return m.heads * m.head; }
__device__ __forceinline__ int channels(const Mamba& m) {
  return inner(m) + 2 * m.groups * kMixerState;
}

// Channels of the key of a head's group; its query is behind the keys of all groups.
__device__ __forceinline__ int key_of(const Mamba& m, int head) {
  return inner(m) + head / (m.heads / m.groups) * kMixerState;
}
__device__ __forceinline__ int query_of(const Mamba& m, int head) {
  return key_of(m, head) + m.groups * kMixerState;
}

// A head's time step at a token, and what its state decays by.
struct Step {
  float time, decay;
};
__device__ __forceinline__ int step_at(const Mamba& m, int head) {
  return inner(m) + channels(m) + head;
}
__device__ __forceinline__ Step step_from(const Mamba& m, int head, float x) {
  const float time = softplus_of(x + m.time_bias[head]);
  return {time, expf(m.decay[head] * time)};
}

// The channel that is element i of the head's value, then of its key and its query.
__device__ __forceinline__ int channel_of(const Mamba& m, int head, int i) {
  if (i < m.head) return head * m.head + i;
  i -= m.head;
  return i < kMixerState ? key_of(m, head) + i : query_of(m, head) + i - kMixerState;
}

// A channel of a row, convolved and activated; kept, if the row's block has to.
__device__ __forceinline__ float convolved_channel(const Mamba& m, const float* mixed, float* last,
                                                   int channel, int position, bool keeps) {
  const int width = channels(m);
  const float4 taps = *reinterpret_cast<const float4*>(m.taps + std::int64_t(channel) * kMixerTaps);
  const auto at = [&](int back) {
    return position >= back ? last[std::int64_t((position - back) % kMixerTaps) * width + channel]
                            : 0.0f;
  };
  const float now = mixed[inner(m) + channel];
  const float sum = taps.x * at(3) + taps.y * at(2) + taps.z * at(1) + taps.w * now;
  if (keeps) last[std::int64_t(position % kMixerTaps) * width + channel] = now;
  return silu_of(sum + m.taps_bias[channel]);
}

// A head of one row, with kStateLanes threads for each of its values. The state is read before the
// inputs are there.
__global__ void __launch_bounds__(kMaxMambaHead* kStateLanes)
    mamba_token(const Mamba m, const MixerRows rows, float* values) {
  __shared__ __align__(16) float keys[2][kMixerState];
  __shared__ float own_values[kMaxMambaHead];
  allow_next_kernel();
  const int head = int(blockIdx.x), row = int(blockIdx.y), thread = int(threadIdx.x);
  const int line = thread / kStateLanes, lane = thread % kStateLanes;
  const int number = rows.state[row], position = rows.position[row];
  float* const own = m.states.of(number);
  HeadState state(own + std::int64_t(head) * m.head * kMixerState, line, lane,
                  position > 0 && number >= 0);
  float* const last = own + std::int64_t(inner(m)) * kMixerState;
  wait_for_inputs();
  const float* const mixed = m.mixed + row * m.stride;
  // Heads of a group have one key and one query, which the first of them keeps.
  const bool is_first = head % (m.heads / m.groups) == 0;
  for (int i = thread; i < m.head + 2 * kMixerState; i += int(blockDim.x)) {
    const bool keeps = number >= 0 && (i < m.head || is_first);
    const float x = convolved_channel(m, mixed, last, channel_of(m, head, i), position, keeps);
    (i < m.head ? own_values[i] : keys[0][i - m.head]) = x;
  }
  const Step step = step_from(m, head, mixed[step_at(m, head)]);
  __syncthreads();
  const LaneVector key(keys[0], lane), query(keys[1], lane);
  const float value = own_values[line];
  state.update(step.decay, step.time * value, key);
  const float seen = state.times(query) + m.skip[head] * value;
  if (number >= 0) state.store();
  if (lane == 0)
    values[std::int64_t(row) * inner(m) + head * m.head + line] = number >= 0 ? seen : 0.0f;
}

// What all rows of a head's state need of a token.
struct ScanToken {
  Step step;

  static __device__ __forceinline__ ScanToken that_changes_nothing() { return {{0, 1}}; }
};

// Some rows of a head's state go through all tokens; results replace values. Lanes past the last
// row compute that one, too, and keep nothing.
__global__ void __launch_bounds__(kScanThreads)
    mamba_scan(const Mamba m, const MixerRows rows, float* convolved) {
  allow_next_kernel();
  const int head = int(blockIdx.x), lane = int(threadIdx.x) % kStateLanes;
  const int first = int(blockIdx.y) * kScanRows, wanted = first + int(threadIdx.x) / kStateLanes;
  const int line = min(wanted, m.head - 1);
  HeadState state(m.states.of(*rows.state) + std::int64_t(head) * m.head * kMixerState, line, lane,
                  *rows.position > 0);
  const std::int64_t width = channels(m);
  const float* const steps = m.mixed + step_at(m, head);
  const ScanSource source{
      convolved,      width, key_of(m, head), query_of(m, head), head * m.head + first,
      m.head - first, steps, steps,           m.stride};
  const float skip = m.skip[head];
  wait_for_inputs();
  scan_tokens<ScanToken>(
      source, rows.rows, state,
      [&](const LaneVector&, const LaneVector&, float step, float) {
        return ScanToken{step_from(m, head, step)};
      },
      [&](const ScanToken& token, const LaneVector& key, float value) {
        state.update(token.step.decay, token.step.time * value, key);
      },
      [&](int row, const ScanToken&, float value, float seen) {
        if (line == wanted) convolved[row * width + head * m.head + line] = seen + skip * value;
      });
  if (line == wanted) state.store();
}

// The gate, and the norm of groups, of values whose rows are `stride` floats apart.
void finish(const Stream& stream, const Mamba& mixer, int rows, const float* values,
            std::int64_t stride, const MixerOutputs& out) {
  GatedNorm norm;
  norm.x = values;
  norm.x_stride = stride;
  norm.gates = mixer.mixed;
  norm.gates_stride = mixer.stride;
  norm.weight = mixer.norm;
  norm.gates_before = true;
  norm.groups = mixer.groups;
  norm.width = mixer.heads * mixer.head / mixer.groups;
  norm.eps = mixer.eps;
  gated_norm(stream, norm, rows, out);
}

}  // namespace

void mamba_apart(const Stream& stream, const Mamba& mixer, const MixerRows& rows, float* values,
                 const MixerOutputs& out) {
  launch(
      stream,
      {dim3(unsigned(mixer.heads), unsigned(rows.rows)), dim3(unsigned(mixer.head * kStateLanes))},
      Start::kEarly, mamba_token, mixer, rows, values);
  finish(stream, mixer, rows.rows, values, std::int64_t(mixer.heads) * mixer.head, out);
}

void mamba_together(const Stream& stream, const Mamba& mixer, const MixerRows& rows,
                    float* convolved, const MixerOutputs& out) {
  const int inner = mixer.heads * mixer.head, width = inner + 2 * mixer.groups * kMixerState;
  LayerStates last = mixer.states;
  last.first += std::int64_t(inner) * kMixerState;
  const ConvolvedRows rows_of{mixer.mixed + inner, mixer.stride,    width,
                              mixer.taps,          mixer.taps_bias, last};
  convolve_and_silu(stream, rows_of, rows, convolved);
  const dim3 grid(unsigned(mixer.heads), unsigned((mixer.head + kScanRows - 1) / kScanRows));
  launch(stream, {grid, dim3(kScanThreads)}, Start::kEarly, mamba_scan, mixer, rows, convolved);
  keep_last(stream, rows_of, rows);
  finish(stream, mixer, rows.rows, convolved, width, out);
}

}  // namespace rigcast::engine::cuda
