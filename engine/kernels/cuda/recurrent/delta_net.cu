#include "engine/kernels/cuda/recurrent/delta_net.cuh"

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/recurrent/convolved_rows.cuh"
#include "engine/kernels/cuda/recurrent/head_state.cuh"
#include "engine/kernels/cuda/recurrent/scan_tiles.cuh"

namespace rigcast::engine::cuda {
namespace {

constexpr int kWarp = 32;
// A thread block of a token has all of a head's state in registers.
constexpr int kTokenThreads = kMixerState * kStateLanes;

__device__ __forceinline__ int channels(const DeltaNet& m) {
  return (2 * m.groups + m.heads) * kMixerState;
}
__device__ __forceinline__ int inner(const DeltaNet& m) { return m.heads * kMixerState; }

// How much of a head's state stays at a token, and how much of it the token replaces.
struct Gates {
  float decay, part;
};
__device__ __forceinline__ Gates gates_from(const DeltaNet& m, int head, float alpha, float beta) {
  const float step = softplus_of(alpha + m.time_bias[head]);
  return {expf(m.decay[head] * step), 1.0f / (1.0f + expf(-beta))};
}

// Where a row has a head's alpha and beta.
__device__ __forceinline__ int alpha_at(const DeltaNet& m, int head) {
  const int of_group = m.heads / m.groups, both = channels(m) + inner(m);
  return both + (m.grouped ? head / of_group * 2 * of_group + of_group + head % of_group : head);
}
__device__ __forceinline__ int beta_at(const DeltaNet& m, int head) {
  return m.grouped ? alpha_at(m, head) - m.heads / m.groups : alpha_at(m, head) + m.heads;
}
__device__ __forceinline__ Gates gates_of(const DeltaNet& m, const float* row, int head) {
  return gates_from(m, head, row[alpha_at(m, head)], row[beta_at(m, head)]);
}

// The inverse of a vector's length, whose square is given.
__device__ __forceinline__ float inverse_length(float squares, float eps) {
  return 1.0f / fmaxf(sqrtf(squares), eps);
}

__device__ __forceinline__ float query_scale() { return rsqrtf(float(kMixerState)); }

// A head's group, and whether the head is the first of it.
__device__ __forceinline__ int group_of(const DeltaNet& m, int head) {
  return m.grouped ? head / (m.heads / m.groups) : head % m.groups;
}
__device__ __forceinline__ bool is_first(const DeltaNet& m, int head) {
  return m.grouped ? head % (m.heads / m.groups) == 0 : head < m.groups;
}

// The channel that is element i of the head's query, key or value: part 0, 1 or 2.
__device__ __forceinline__ int channel_of(const DeltaNet& m, int head, int part, int i) {
  const int vector = part == 2 ? 2 * m.groups + head : part * m.groups + group_of(m, head);
  return vector * kMixerState + i;
}

// How a row has channels and gates of heads.
__host__ __device__ __forceinline__ GroupedRow row_of(const DeltaNet& m) {
  return m.gates_by_group ? GroupedRow{m.groups, m.heads / m.groups} : GroupedRow{};
}

// What earlier tokens give to a convolved channel.
__device__ __forceinline__ float convolved_before(const float4& taps, const float* last, int width,
                                                  int position) {
  const auto at = [&](int back) {
    return position >= back ? last[std::int64_t((position - back) % kMixerTaps) * width] : 0.0f;
  };
  return taps.x * at(3) + taps.y * at(2) + taps.z * at(1);
}

// A head's query, key and value, convolved, and the sums of squares of their warps.
struct HeadVectors {
  float of[3][kMixerState];
  float squares[3 * kMixerState / kWarp];
  float results[kMixerState];
  float result_squares[kMixerState / kWarp];
  Gates gates;
};

__device__ __forceinline__ float sum_of_four(const float* x) { return x[0] + x[1] + x[2] + x[3]; }

// A head of one row. State and earlier tokens are read before the inputs are there.
__global__ void __launch_bounds__(kTokenThreads)
    delta_net_token(const DeltaNet m, const MixerRows rows, const MixerOutputs out) {
  __shared__ __align__(16) HeadVectors v;
  allow_next_kernel();
  const int head = int(blockIdx.x), row = int(blockIdx.y), thread = int(threadIdx.x);
  const int number = rows.state[row], position = rows.position[row];
  float* const own = m.states.of(number);
  HeadState state(own + std::int64_t(head) * kMixerState * kMixerState, thread / kStateLanes,
                  thread % kStateLanes, position > 0 && number >= 0);
  const int part = thread / kMixerState, element = thread % kMixerState;
  const int width = channels(m);
  const bool convolves = part < 3;
  const int channel = convolves ? channel_of(m, head, part, element) : 0;
  float* const last = own + std::int64_t(inner(m)) * kMixerState + channel;
  float before = 0, newest = 0, weight = 0;
  if (convolves) {
    const float4 taps =
        *reinterpret_cast<const float4*>(m.taps + std::int64_t(channel) * kMixerTaps);
    before = convolved_before(taps, last, width, position);
    newest = taps.w;
    weight = m.norm[element];
  }
  wait_for_inputs();
  const float* const mixed = m.mixed + row * m.stride;
  float gate = 0;
  if (convolves) {
    const GroupedRow row_has = row_of(m);
    const float now = mixed[row_has.channel(channel)];
    // Heads of a group have one query and one key, which the first of them keeps.
    const bool keeps = part == 2 || is_first(m, head);
    if (keeps && number >= 0) last[std::int64_t(position % kMixerTaps) * width] = now;
    const float x = silu_of(before + newest * now);
    v.of[part][element] = x;
    const float squares = sum_over_lanes(x * x, kWarp);
    if (thread % kWarp == 0) v.squares[thread / kWarp] = squares;
    const int gates = m.gates_by_group ? row_has.gates(head) : width + head * kMixerState;
    if (part == 0) gate = mixed[gates + element];
  } else if (thread == 3 * kMixerState) {
    v.gates = gates_of(m, mixed, head);
  }
  __syncthreads();
  const float of_query = query_scale() * inverse_length(sum_of_four(v.squares), m.eps);
  const float of_key = inverse_length(sum_of_four(v.squares + kMixerState / kWarp), m.eps);
  const LaneVector key(v.of[1], thread % kStateLanes);
  const float known = of_key * state.times(key);
  const float change =
      v.gates.part * (v.of[2][thread / kStateLanes] - v.gates.decay * known) * of_key;
  state.update(v.gates.decay, change, key);
  const float seen = of_query * state.times(LaneVector(v.of[0], thread % kStateLanes));
  if (number >= 0) state.store();
  if (thread % kStateLanes == 0) v.results[thread / kStateLanes] = seen;
  __syncthreads();
  float x = 0;
  if (thread < kMixerState) {
    x = v.results[thread];
    const float squares = sum_over_lanes(x * x, kWarp);
    if (thread % kWarp == 0) v.result_squares[thread / kWarp] = squares;
  }
  __syncthreads();
  if (thread >= kMixerState) return;
  x *= weight * silu_of(gate) / sqrtf(sum_of_four(v.result_squares) / float(kMixerState) + m.eps);
  put(out, row, inner(m), head * kMixerState + element, number >= 0 ? x : 0.0f);
}

// What all rows of a head's state need of a token. The state takes `part` of what the token's value
// lacks, by its key.
struct ScanToken {
  float decay, part;
  float of_key, of_query;  // factors that give the vectors their lengths

  // Of a key that is zero.
  static __device__ __forceinline__ ScanToken that_changes_nothing() { return {1, 0, 0, 0}; }
};

// Some rows of a head's state go through all tokens; results replace values.
__global__ void __launch_bounds__(kScanThreads)
    delta_net_scan(const DeltaNet m, const MixerRows rows, float* convolved) {
  allow_next_kernel();
  const int head = int(blockIdx.x), lane = int(threadIdx.x) % kStateLanes;
  const int line = int(blockIdx.y) * kScanRows + int(threadIdx.x) / kStateLanes;
  HeadState state(m.states.of(*rows.state) + std::int64_t(head) * kMixerState * kMixerState, line,
                  lane, *rows.position > 0);
  const std::int64_t width = channels(m);
  const int value_at = channel_of(m, head, 2, 0);
  const ScanSource source{convolved,
                          width,
                          channel_of(m, head, 1, 0),
                          channel_of(m, head, 0, 0),
                          value_at + int(blockIdx.y) * kScanRows,
                          kScanRows,
                          m.mixed + alpha_at(m, head),
                          m.mixed + beta_at(m, head),
                          m.stride};
  wait_for_inputs();
  const auto prepare = [&](const LaneVector& key, const LaneVector& query, float alpha,
                           float beta) {
    const Gates gates = gates_from(m, head, alpha, beta);
    const float keys = sum_over_lanes(key.squares(), kStateLanes),
                queries = sum_over_lanes(query.squares(), kStateLanes);
    return ScanToken{gates.decay, gates.part, inverse_length(keys, m.eps),
                     query_scale() * inverse_length(queries, m.eps)};
  };
  const auto update = [&](const ScanToken& token, const LaneVector& key, float value) {
    const float known = token.of_key * state.scan_times(key);
    state.update(token.decay, token.part * (value - token.decay * known) * token.of_key, key);
  };
  scan_tokens<ScanToken>(source, rows.rows, state, prepare, update,
                         [&](int row, const ScanToken& token, float, float seen) {
                           convolved[row * width + value_at + line] = token.of_query * seen;
                         });
  state.store();
}

}  // namespace

void delta_net_apart(const Stream& stream, const DeltaNet& mixer, const MixerRows& rows,
                     const MixerOutputs& out) {
  launch(stream, {dim3(unsigned(mixer.heads), unsigned(rows.rows)), dim3(kTokenThreads)},
         Start::kEarly, delta_net_token, mixer, rows, out);
}

void delta_net_together(const Stream& stream, const DeltaNet& mixer, const MixerRows& rows,
                        float* convolved, const MixerOutputs& out) {
  const int inner = mixer.heads * kMixerState, groups = mixer.groups * kMixerState;
  const int width = 2 * groups + inner;
  LayerStates last = mixer.states;
  last.first += std::int64_t(inner) * kMixerState;
  const ConvolvedRows rows_of{mixer.mixed, mixer.stride, width,        mixer.taps,
                              nullptr,     last,         row_of(mixer)};
  convolve_and_silu(stream, rows_of, rows, convolved);
  const dim3 grid(unsigned(mixer.heads), kMixerState / kScanRows);
  launch(stream, {grid, dim3(kScanThreads)}, Start::kEarly, delta_net_scan, mixer, rows, convolved);
  keep_last(stream, rows_of, rows);
  GatedNorm norm;
  norm.x = convolved + 2 * groups;
  norm.x_stride = width;
  norm.gates = mixer.gates_by_group ? mixer.mixed : mixer.mixed + width;
  norm.by_group = row_of(mixer);
  norm.gates_stride = mixer.stride;
  norm.weight = mixer.norm;
  norm.one_weight = true;
  norm.groups = mixer.heads;
  norm.width = kMixerState;
  norm.eps = mixer.eps;
  gated_norm(stream, norm, rows.rows, out);
}

}  // namespace rigcast::engine::cuda
