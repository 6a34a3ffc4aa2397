#pragma once
// Device code: of the thread blocks that attend for the same query heads, the last one to write its
// partial results merges all of them. That takes as long as a few reads of memory; another kernel
// would wait for the end of this one first.

#include "engine/kernels/cuda/activations/inputs.cuh"
#include "engine/kernels/cuda/activations/quantize_device.cuh"
#include "engine/kernels/cuda/attention/attention_tiles.cuh"
#include "engine/kernels/cuda/attention/merge_partials.cuh"

namespace rigcast::engine::cuda {

/// At most: a lane weighs two.
inline constexpr int kMaxMergedSplits = 64;

/// Heads [first, first + rows), whose partial results are merged.
struct MergedGroup {
  Partials partials;
  int splits, heads, dim;
  int first, rows;
};

/// Whether a block of so many threads merges them in about the time of a kernel of its own, or
/// less. `rows`: heads of a group.
inline bool last_block_merges(int splits, int rows, int dim, int threads) {
  constexpr int kMaxLoads = 64;  // of 16 bytes, by a thread
  return dim % 32 == 0 && splits <= kMaxMergedSplits &&
         rows * dim / 4 * splits <= kMaxLoads * threads;
}

/// True in all threads of the last one of `blocks` blocks that call this: what all of them have
/// written before is visible there. The counter is 0 again then.
__device__ __forceinline__ bool arrives_last(unsigned* arrivals, int blocks) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
                 : "=r"(before)
                 : "l"(__cvta_generic_to_global(arrivals))
                 : "memory");
    last = before + 1 == unsigned(blocks);
    if (last) *arrivals = 0;
  }
  __syncthreads();
  return last;
}

// Room for the weights of a head's splits, of which those past the last are 0.
__device__ __forceinline__ int weights_of_row(int splits) { return (splits + 15) / 16 * 16; }

// weights[row][split]: what the split's values count in the head's output. By all warps, a head
// each.
__device__ __forceinline__ void weigh_splits(const MergedGroup& g, Sinks sinks, float* weights) {
  constexpr int kOfLane = kMaxMergedSplits / 32;
  const int lane = int(threadIdx.x) % 32, warps = int(blockDim.x) / 32;
  const int room = weights_of_row(g.splits);
  float m[kOfLane], l[kOfLane];
  const auto load = [&](int row) {
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      const int split = lane + 32 * i;
      m[i] = -INFINITY, l[i] = 0;
      if (split >= g.splits || row >= g.rows) continue;
      m[i] = __ldcg(g.partials.m + split * g.heads + g.first + row);
      l[i] = __ldcg(g.partials.l + split * g.heads + g.first + row);
    }
  };
  int row = int(threadIdx.x) / 32;
  load(row);
#pragma unroll 1
  for (; row < g.rows; row += warps) {
    float largest = -INFINITY, sum = 0, w[kOfLane];
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) largest = fmaxf(largest, m[i]);
#pragma unroll
    for (int d = 16; d > 0; d /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, d));
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      w[i] = m[i] == -INFINITY ? 0 : power_of_2(m[i] - largest);
      sum += w[i] * l[i];
    }
    load(row + warps);
#pragma unroll
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    if (sinks) sum += sink_term(sinks[g.first + row], largest);
    const float inverse = __fdiv_rn(1.0f, sum);
#pragma unroll
    for (int i = 0; i < kOfLane; ++i)
      if (const int split = lane + 32 * i; split < room)
        weights[row * room + split] = w[i] * inverse;
  }
}

// Writes four neighbouring elements from `at` on, one of eight lanes that have 32. All lanes of the
// warp call this; those that are not `there` write nothing.
__device__ __forceinline__ void write_four(const float4& x, int at, bool there,
                                           const Outputs& out) {
  if (there && out.floats) *reinterpret_cast<float4*>(out.floats + at) = x;
  if (!out.quantized.q) return;
  const float largest = fmaxf(fmaxf(fabsf(x.x), fabsf(x.y)), fmaxf(fabsf(x.z), fabsf(x.w)));
  const QuantizationScale s = quantization_scale(max_over_lanes(largest, 8));
  const float values[] = {x.x, x.y, x.z, x.w};
  std::uint32_t bytes = 0;
  int sum = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t byte = quantized_byte(values[i], s.inverse);
    bytes |= byte << 8 * i;
    sum += std::int8_t(byte);
  }
  sum = sum_of(sum, 4);
  if (!there) return;
  *reinterpret_cast<std::uint32_t*>(out.quantized.q + at) = bytes;
  if (at % 32 == 0) out.quantized.scale[at / 32] = s.scale;
  if (at % 16 == 0) out.quantized.sum16[at / 16] = s.scale * float(sum);
}

// A thread's part of the merge: kFours times four elements at once, kSplits splits of each, all of
// whose loads are under way together. Sums go from the first split to the last. Loops have one copy
// of each part: a thread runs most of it once, and it is fetched first.
template <int kFours, int kSplits>
class GroupMerge {
 public:
  __device__ explicit GroupMerge(const MergedGroup& g)
      : g_(g), count_(g.rows * g.dim / 4), place_(int(threadIdx.x)) {}

  __device__ __forceinline__ void run(Sinks sinks, float* weights, const Outputs& out) {
    bool weighed = false;
#pragma unroll 1
    do {
      load();
      if (!weighed) {
        weigh_splits(g_, sinks, weights);
        __syncthreads();
        weighed = true;
        if (!has_work()) return;
      }
      add(weights);
      split_ += kSplits;
      if (split_ >= g_.splits) {
        write(out);
        split_ = 0, place_ += kFours * int(blockDim.x);
      }
    } while (has_work());
  }

 private:
  // The same in all lanes of a warp.
  __device__ bool has_work() const { return place_ - int(threadIdx.x) % 32 < count_; }
  __device__ int four(int j) const { return place_ + j * int(blockDim.x); }

  // Past the last split, and past the last four, the last one is read again.
  __device__ __forceinline__ void load() {
    const auto* from = reinterpret_cast<const float4*>(g_.partials.o);
    const int width = g_.heads * g_.dim / 4, first = g_.first * g_.dim / 4;
#pragma unroll
    for (int j = 0; j < kFours; ++j) {
      const int at = first + min(four(j), count_ - 1);
#pragma unroll
      for (int i = 0; i < kSplits; ++i)
        o_[j][i] = __ldcg(from + (at + min(split_ + i, g_.splits - 1) * width));
    }
  }

  __device__ __forceinline__ void add(const float* weights) {
#pragma unroll
    for (int j = 0; j < kFours; ++j) {
      const int row = min(four(j), count_ - 1) * 4 / g_.dim;
      const float* const of_row = weights + row * weights_of_row(g_.splits) + split_;
#pragma unroll
      for (int i = 0; i < kSplits; ++i) {
        const float w = of_row[i];
        sum_[j].x += w * o_[j][i].x, sum_[j].y += w * o_[j][i].y;
        sum_[j].z += w * o_[j][i].z, sum_[j].w += w * o_[j][i].w;
      }
    }
  }

  __device__ __forceinline__ void write(const Outputs& out) {
#pragma unroll 1
    for (int j = 0; j < kFours; ++j) {
      write_four(sum_[0], g_.first * g_.dim + four(j) * 4, four(j) < count_, out);
#pragma unroll
      for (int k = 0; k + 1 < kFours; ++k) sum_[k] = sum_[k + 1];
      sum_[kFours - 1] = make_float4(0, 0, 0, 0);
    }
  }

  const MergedGroup& g_;
  int count_, place_, split_ = 0;
  float4 o_[kFours][kSplits], sum_[kFours] = {};
};

/// Merges the group's partial results and writes its heads' columns, by all threads of the block.
/// `weights`: shared memory for 16 * kMaxMergedSplits floats, which no thread uses any more. Splits
/// without tokens have values of 0.
template <int kFours, int kSplits>
__device__ __forceinline__ void merge_group(const MergedGroup& g, Sinks sinks, float* weights,
                                            const Outputs& out) {
  GroupMerge<kFours, kSplits>(g).run(sinks, weights, out);
}

}  // namespace rigcast::engine::cuda
