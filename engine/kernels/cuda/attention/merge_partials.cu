#include "engine/kernels/cuda/attention/merge_partials.cuh"

#include <cmath>

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/activations/quantize_warp.cuh"
#include "engine/kernels/cuda/attention/attention_tiles.cuh"

namespace rigcast::engine::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kAtOnce = 6;     // partials that a warp loads at once
constexpr int kFewSplits = 8;  // a thread merges so many by itself

// (m, l, o) of one column. {-INFINITY, 0, 0}: no tokens.
struct Column {
  float m, l, o;
};

// Values with m = -infinity count as nothing, whatever they are.
template <int kCount>
__device__ Column mix(const float (&m)[kCount], const float (&l)[kCount],
                      const float (&o)[kCount]) {
  Column sum{m[0], 0, 0};
#pragma unroll
  for (int i = 1; i < kCount; ++i) sum.m = fmaxf(sum.m, m[i]);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const bool some = m[i] != -INFINITY;
    const float weight = some ? power_of_2(m[i] - sum.m) : 0;
    sum.l += weight * (some ? l[i] : 0);
    sum.o += weight * (some ? o[i] : 0);
  }
  return sum;
}

// Merges every kWarps-th partial, this warp's, several at once.
__device__ Column column_of_warp(const Partials& p, int count, int heads, int dim, int column,
                                 int warp) {
  const int head = column / dim;
  Column sum{-INFINITY, 0, 0};
  for (int first = warp; first < count; first += kWarps * kAtOnce) {
    float m[kAtOnce + 1], l[kAtOnce + 1], o[kAtOnce + 1];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int split = first + i * kWarps;
      m[i] = -INFINITY, l[i] = o[i] = 0;
      if (split >= count) continue;
      m[i] = p.m[std::int64_t(split) * heads + head];
      l[i] = p.l[std::int64_t(split) * heads + head];
      o[i] = p.o[std::int64_t(split) * heads * dim + column];
    }
    m[kAtOnce] = sum.m, l[kAtOnce] = sum.l, o[kAtOnce] = sum.o;
    sum = mix(m, l, o);
  }
  return sum;
}

// One thread block merges 32 columns.
__global__ void __launch_bounds__(32 * kWarps)
    merge(Partials partials, int count, int heads, int dim, float* out,
          QuantizedActivations quantized, HalfRows halves, Sinks sinks) {
  __shared__ Column columns[kWarps][32];
  allow_next_kernel();
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int column = int(blockIdx.x) * 32 + lane;
  const std::int64_t row = blockIdx.y, width = std::int64_t(heads) * dim;
  partials.m += row * count * heads, partials.l += row * count * heads;
  partials.o += row * count * width;
  const float sink = sinks ? sinks[column / dim] : 0;
  wait_for_inputs();
  columns[warp][lane] = column_of_warp(partials, count, heads, dim, column, warp);
  __syncthreads();
  if (warp > 0) return;
  float m[kWarps], l[kWarps], o[kWarps];
#pragma unroll
  for (int w = 0; w < kWarps; ++w)
    m[w] = columns[w][lane].m, l[w] = columns[w][lane].l, o[w] = columns[w][lane].o;
  Column sum = mix(m, l, o);
  if (sinks) sum.l += sink_term(sink, sum.m);
  const float x = __fdiv_rn(sum.o, sum.l);
  if (out) out[column] = x;
  if (halves.to) halves.to[index_in(halves, row, width, column)] = __float2half_rn(x);
  if (quantized.q) quantize_32(x, int(blockIdx.x), lane, quantized);
}

static_assert(kFewSplits <= kWarps);

// A thread merges the partials of four columns, in the order in which merge() does: both give the
// same bits where there are at most kWarps partials.
__global__ void __launch_bounds__(128)
    merge_few(Partials partials, int count, int heads, int dim, HalfRows out, Sinks sinks) {
  allow_next_kernel();
  const int width = heads * dim, column = int(blockIdx.x * 128 + threadIdx.x) * 4;
  if (column >= width) return;
  const int head = column / dim;
  const std::int64_t row = blockIdx.y;
  const float* const m = partials.m + row * count * heads + head;
  const float* const l = partials.l + row * count * heads + head;
  const float* const o = partials.o + row * count * width + column;
  const float sink = sinks ? sinks[head] : 0;
  wait_for_inputs();
  float ms[kFewSplits];
  float4 os[kFewSplits];
  float m_all = -INFINITY, l_all = 0;
#pragma unroll
  for (int i = 0; i < kFewSplits; ++i) {
    ms[i] = i < count ? m[i * heads] : -INFINITY;
    if (i < count) os[i] = *reinterpret_cast<const float4*>(o + std::int64_t(i) * width);
    m_all = fmaxf(m_all, ms[i]);
  }
  float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
  for (int i = 0; i < kFewSplits; ++i) {
    if (ms[i] == -INFINITY) continue;
    const float weight = power_of_2(ms[i] - m_all);
    l_all += weight * l[i * heads];
    sum.x += weight * os[i].x;
    sum.y += weight * os[i].y;
    sum.z += weight * os[i].z;
    sum.w += weight * os[i].w;
  }
  if (sinks) l_all += sink_term(sink, m_all);
  const float x[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
  for (int k = 0; k < 4; ++k)
    out.to[index_in(out, row, width, column + k)] = __float2half_rn(__fdiv_rn(x[k], l_all));
}

}  // namespace

void merge_partials(const Stream& stream, const Partials& partials, int count, int heads,
                    int head_dim, const Outputs& out, Sinks sinks) {
  const dim3 grid(unsigned(heads * head_dim / 32));
  launch(stream, {grid, dim3(32 * kWarps)}, Start::kEarly, merge, partials, count, heads, head_dim,
         out.floats, out.quantized, HalfRows{}, sinks);
}

void merge_rows(const Stream& stream, const Partials& partials, int rows, int splits, int heads,
                int head_dim, const HalfRows& out, Sinks sinks) {
  if (rows < 1) return;
  const int width = heads * head_dim;
  if (splits <= kFewSplits && head_dim % 4 == 0) {
    const dim3 few(unsigned((width + 511) / 512), unsigned(rows));
    return launch(stream, {few, dim3(128)}, Start::kEarly, merge_few, partials, splits, heads,
                  head_dim, out, sinks);
  }
  const dim3 grid(unsigned(width / 32), unsigned(rows));
  launch(stream, {grid, dim3(32 * kWarps)}, Start::kEarly, merge, partials, splits, heads, head_dim,
         static_cast<float*>(nullptr), QuantizedActivations{}, out, sinks);
}

}  // namespace rigcast::engine::cuda
