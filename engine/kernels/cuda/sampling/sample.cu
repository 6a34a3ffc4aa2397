// Two kernels. The first builds a histogram of the highest bits of the logits' ranks, which bounds
// the k largest from below. The second collects the ranks above that bound, a few hundred of a
// vocabulary; its block that ends last sorts them and samples.

#include "engine/kernels/cuda/sampling/sample.cuh"

#include <algorithm>

#include "core/base/error.hpp"
#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/sampling/logit_rank.cuh"
#include "engine/synth/counter_rng.hpp"

namespace rigcast::engine::cuda {
namespace {

using Rank = unsigned long long;

constexpr int kWarp = 32;
constexpr int kThreads = 512;
constexpr int kAtOnce = 8;  // logits that a thread loads together
constexpr unsigned kMaxBlocks = 128;
constexpr int kBins = SampleState::kBins;
constexpr int kBinBits = 12;
constexpr int kMaxSorted = SampleState::kMaxSorted;
constexpr int kBinsOfThread = kBins / kThreads;
static_assert(kBins == 1 << kBinBits && kBinsOfThread % 4 == 0);

struct Logits {
  const float* values;
  int count;
};

// Calls visit(rank) for every `step`th logit from `begin` on.
template <class Visit>
__device__ __forceinline__ void for_each_kept(const Logits& logits, int begin, int step,
                                              const Visit& visit) {
  for (int first = begin; first < logits.count; first += kAtOnce * step) {
    float v[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int i = first + k * step;
      v[k] = i < logits.count ? logits.values[i] : 0.0f;
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int i = first + k * step;
      if (i < logits.count) visit(rank_of(v[k], i));
    }
  }
}

template <class Visit>
__device__ __forceinline__ void for_each_kept_of_grid(const Logits& logits, const Visit& visit) {
  for_each_kept(logits, int(blockIdx.x * kThreads + threadIdx.x), int(gridDim.x * kThreads), visit);
}

// The logits of this block's row.
__device__ __forceinline__ Logits own_row(const Logits& rows) {
  return {rows.values + std::int64_t(blockIdx.y) * rows.count, rows.count};
}

// grid: blocks, rows
__global__ void __launch_bounds__(kThreads) count_kernel(Logits rows, SampleState* states) {
  __shared__ unsigned counts[kBins];
  const Logits logits = own_row(rows);
  SampleState* const state = states + blockIdx.y;
  for (int i = int(threadIdx.x); i < kBins; i += kThreads) counts[i] = 0;
  __syncthreads();
  wait_for_inputs();
  allow_next_kernel();
  if (!(state->params.temperature > 0)) return;
  for_each_kept_of_grid(logits, [&](Rank r) { atomicAdd(&counts[r >> (64 - kBinBits)], 1u); });
  __syncthreads();
  for (int i = int(threadIdx.x); i < kBins; i += kThreads)
    if (counts[i] > 0) atomicAdd(&state->counts[i], counts[i]);
}

// The range that contains the k-th largest rank: [floor, floor + 2^shift).
struct Cut {
  Rank floor;
  int shift;
  int above, inside;  // number of ranks above the range, and in it
  __device__ int found() const { return above + inside; }
};

// Finds the bin that contains the `wanted`th largest rank, and the number of ranks above and inside
// it. Every thread of the block gets the result. `counts` are aligned to 16 bytes.
__device__ Cut find_bin(const unsigned* counts, int wanted) {
  __shared__ unsigned of_warp[kThreads / kWarp];
  __shared__ Cut cut;
  const int thread = int(threadIdx.x), lane = thread % kWarp, warp = thread / kWarp;
  const int first = kBins - (thread + 1) * kBinsOfThread;  // thread 0 has the highest
  unsigned mine[kBinsOfThread], sum = 0;
#pragma unroll
  for (int k = 0; k < kBinsOfThread; k += 4) {
    const uint4 four = *reinterpret_cast<const uint4*>(counts + first + k);
    mine[k] = four.x, mine[k + 1] = four.y, mine[k + 2] = four.z, mine[k + 3] = four.w;
    sum += four.x + four.y + four.z + four.w;
  }
  unsigned through = sum;  // the sum over the threads up to this one
  for (int step = 1; step < kWarp; step *= 2) {
    const unsigned other = __shfl_up_sync(~0u, through, step);
    if (lane >= step) through += other;
  }
  if (lane == kWarp - 1) of_warp[warp] = through;
  __syncthreads();
#pragma unroll
  for (int w = 0; w < kThreads / kWarp; ++w) through += w < warp ? of_warp[w] : 0;
  unsigned above = through - sum;
  if (above < unsigned(wanted) && unsigned(wanted) <= through) {
#pragma unroll
    for (int k = kBinsOfThread - 1; k >= 0; --k) {
      if (above < unsigned(wanted) && unsigned(wanted) <= above + mine[k])
        cut = {Rank(first + k), 0, int(above), int(mine[k])};
      above += mine[k];
    }
  }
  __syncthreads();
  return cut;
}

__device__ Cut first_cut(const SampleState& state, int wanted) {
  Cut cut = find_bin(state.counts, wanted);
  cut.shift = 64 - kBinBits;
  cut.floor <<= cut.shift;
  return cut;
}

// Narrows the range: nearly equal logits fill one bin, which is divided until few enough are left.
// Ranks differ, so this ends.
__device__ Cut narrowed(Cut cut, const Logits& logits, int wanted, unsigned* counts) {
  while (cut.found() > kMaxSorted) {
    const int shift = max(cut.shift - kBinBits, 0);
    const Rank mask = (Rank(1) << (cut.shift - shift)) - 1;
    __syncthreads();
    for (int i = int(threadIdx.x); i < kBins; i += kThreads) counts[i] = 0;
    __syncthreads();
    for_each_kept(logits, int(threadIdx.x), kThreads, [&](Rank r) {
      if (r >> cut.shift == cut.floor >> cut.shift) atomicAdd(&counts[r >> shift & mask], 1u);
    });
    __syncthreads();
    const Cut within = find_bin(counts, wanted - cut.above);
    cut = {cut.floor | within.floor << shift, shift, cut.above + within.above, within.inside};
  }
  return cut;
}

// True in the block that ends last, which sees what the others have written.
__device__ bool ends_last(unsigned* done) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(done, 1u) + 1 == gridDim.x;
  __syncthreads();
  __threadfence();
  return last;
}

// The number of the first `count` ranks of a sorted run of `run` that are larger than `rank`.
__device__ __forceinline__ int larger_in(const Rank* ranks, int count, int run, Rank rank) {
  int larger = 0;
  for (int step = run; step > 0; step /= 2) {
    const int next = larger + step;
    if (next <= count && ranks[next - 1] > rank) larger = next;
  }
  return larger;
}

// Sorts in descending order; the result is in `ranks` or in `spare`. A rank's place in its run of
// 32 is the number of larger ones; when two runs are merged, its place grows by the number of
// larger ranks in the other run.
__device__ const Rank* sorted(Rank* ranks, Rank* spare, int count) {
  for (int i = int(threadIdx.x); i < count; i += kThreads) {
    const int begin = i / kWarp * kWarp, end = min(begin + kWarp, count);
    const Rank rank = ranks[i];
    int larger = 0;
    for (int j = begin; j < end; ++j) larger += ranks[j] > rank;
    spare[begin + larger] = rank;
  }
  for (int run = kWarp; run < count; run *= 2) {
    __syncthreads();
    Rank* const from = spare;
    spare = ranks;
    ranks = from;
    for (int i = int(threadIdx.x); i < count; i += kThreads) {
      const int begin = i & -run, other = begin ^ run;
      const int there = max(0, min(count - other, run));
      spare[(begin & other) + i - begin + larger_in(from + other, there, run, from[i])] = from[i];
    }
  }
  __syncthreads();
  return spare;
}

// Shared memory of the block that samples.
struct Work {
  union {
    alignas(16) unsigned counts[kBins];  // while the cut is narrowed
    Rank spare[kMaxSorted];              // after that
  };
  Rank ranks[kMaxSorted];
  double sums[kMaxTopK];
  int collected;
};

// The ranks above the lower bound, sorted.
__device__ const Rank* candidates(const Cut& first, const Logits& logits, int wanted,
                                  const SampleState& state, Work& work) {
  Cut cut = first;
  if (first.found() <= kMaxSorted) {
    for (int i = int(threadIdx.x); i < cut.found(); i += kThreads)
      work.ranks[i] = __ldcg(&state.candidates[i]);
  } else {
    if (threadIdx.x == 0) work.collected = 0;
    cut = narrowed(first, logits, wanted, work.counts);
    for_each_kept(logits, int(threadIdx.x), kThreads, [&](Rank r) {
      if (r >= cut.floor) work.ranks[atomicAdd(&work.collected, 1)] = r;
    });
  }
  __syncthreads();
  return sorted(work.ranks, work.spare, cut.found());
}

// Prefix sums in place, added in order, by one thread.
__device__ void add_up(double* values, int count) {
  constexpr int kLoaded = 16;  // values that are loaded at once, before they are needed
  double sum = 0;
  for (int first = 0; first < count; first += kLoaded) {
    double v[kLoaded];
#pragma unroll
    for (int k = 0; k < kLoaded; ++k) v[k] = first + k < count ? values[first + k] : 0;
#pragma unroll
    for (int k = 0; k < kLoaded; ++k) v[k] = sum += v[k];
#pragma unroll
    for (int k = 0; k < kLoaded; ++k)
      if (first + k < count) values[first + k] = v[k];
  }
}

// The number of the first `count` sums for which `is` holds.
template <class Is>
__device__ int count_sums(const double* sums, int count, const Is& is) {
  int all = 0;
  for (int first = 0; first < count; first += kThreads) {
    const int i = first + int(threadIdx.x);
    all += __syncthreads_count(i < count && is(sums[i]));
  }
  return all;
}

__device__ __forceinline__ float logit_of(Rank rank) { return logit_of_bits(unsigned(rank >> 32)); }

// Samples among the `kept` largest ranks, in the same steps as Sampler::next. The sums only grow,
// so counting those below a border finds it; they are NaN if the largest logit is infinite, and
// then none is counted.
__device__ int sampled_id(const SamplingParams& params, const Rank* ranks, int kept, double* sums) {
  const float largest = logit_of(ranks[0]);
  for (int i = int(threadIdx.x); i < kept; i += kThreads)
    sums[i] = exp(double(logit_of(ranks[i]) - largest) / double(params.temperature));
  __syncthreads();
  if (threadIdx.x == 0) add_up(sums, kept);
  __syncthreads();
  const double enough = double(params.top_p) * sums[kept - 1];
  const int used = 1 + count_sums(sums, kept - 1, [&](double s) { return s < enough; });
  const double at =
      double(random_word(params.seed, params.number) >> 11) * 0x1p-53 * sums[used - 1];
  return index_of_rank(ranks[count_sums(sums, used - 1, [&](double s) { return s <= at; })]);
}

// grid: blocks, rows
__global__ void __launch_bounds__(kThreads)
    draw_kernel(Logits rows, SampleState* states, ArgmaxResult result) {
  __shared__ Work work;
  const Logits logits = own_row(rows);
  SampleState* const state = states + blockIdx.y;
  wait_for_inputs();
  allow_next_kernel();
  const SamplingParams params = state->params;
  if (!(params.temperature > 0)) return;
  const int wanted = min(max(params.top_k, 1), min(kMaxTopK, logits.count));
  const Cut cut = first_cut(*state, wanted);
  if (cut.found() <= kMaxSorted)
    for_each_kept_of_grid(logits, [&](Rank r) {
      if (r >= cut.floor) state->candidates[atomicAdd(&state->collected, 1u)] = r;
    });
  if (!ends_last(&state->done)) return;
  const Rank* const ranks = candidates(cut, logits, wanted, *state, work);
  // A NaN among the logits has the first rank; then no token is sampled.
  const std::int32_t id =
      index_of_rank(ranks[0]) == kNoToken ? kNoToken : sampled_id(params, ranks, wanted, work.sums);
  for (int i = int(threadIdx.x); i < kBins; i += kThreads) state->counts[i] = 0;
  if (threadIdx.x > 0) return;
  state->collected = 0;
  state->done = 0;
  state->params.number = params.number + 1;
  result.put(blockIdx.y, id);
}

}  // namespace

void sample(const Stream& stream, const float* logits, int count, SampleState* states,
            const ArgmaxResult& result, int rows) {
  RIGCAST_ASSERT(count > 0 && rows > 0);
  const unsigned of_block = kThreads * kAtOnce;
  const unsigned blocks = std::min((unsigned(count) + of_block - 1) / of_block, kMaxBlocks);
  const dim3 grid(blocks, unsigned(rows));
  const Logits all{logits, count};
  launch(stream, {grid, dim3(kThreads)}, Start::kEarly, count_kernel, all, states);
  launch(stream, {grid, dim3(kThreads)}, Start::kEarly, draw_kernel, all, states, result);
}

}  // namespace rigcast::engine::cuda
