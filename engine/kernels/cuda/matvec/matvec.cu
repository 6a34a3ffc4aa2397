#include "engine/kernels/cuda/matvec/matvec.cuh"

#include <algorithm>
#include <climits>
#include <stdexcept>

#include "engine/kernels/cuda/matvec/many_rows.hpp"
#include "engine/kernels/cuda/matvec/row_stream.cuh"
#include "engine/kernels/cuda/weights/for_format.cuh"

namespace rigcast::engine::cuda {
namespace {

constexpr int kWarps = 4;

// The stages of a warp where a multiprocessor has so many thread blocks.
template <class Lane, int kBlocks>
using Stages = Ring<Lane, (kBlocks == 5 ? 11100 : 13900)>;

struct Job {
  SoaView view;
  QuantFormat format;
  std::int64_t rows;
  float* out;
  const float* bias;
  const float* add;
  int first_block = INT_MAX;
};

struct Jobs {
  Job job[kMaxJobs];
  int columns;
  Inputs x;
};

// The tiling of a thread block: groups of `rows` rows, each computed by `split` warps that share
// its columns. With more rows per warp, activations are loaded less often; a split keeps as many
// warps busy. kBlocks: how many a multiprocessor runs at once, as far as its memory goes.
template <int kRows_, int kSplit_, int kBlocks_ = 4>
struct Tiling {
  static constexpr int kRows = kRows_, kSplit = kSplit_, kBlocks = kBlocks_;
  static constexpr int kRowsOfBlock = kRows * kWarps / kSplit;
  template <QuantFormat F>
  using Stages = cuda::Stages<LaneDot<F, kRows>, kBlocks>;
};
template <QuantFormat F>
using ManyRows = std::conditional_t<kFloatWeights<F>, Tiling<8, 4>, Tiling<4, 1>>;
template <QuantFormat F>
using FewRows = std::conditional_t<kFloatWeights<F>, Tiling<8, 4>, Tiling<4, 2>>;
// With a fifth block, if each warp then has four stages: fewer would leave memory idle.
template <QuantFormat F>
using FewRowsInFiveBlocks =
    std::conditional_t<!kFloatWeights<F> && Stages<LaneDot<F, 4>, 5>::kFit >= 4, Tiling<4, 2, 5>,
                       FewRows<F>>;

// Sums over the warps that share the block's rows: thread i gets the sum of row i.
template <class T>
__device__ __forceinline__ float sum_of_warps(float sum) {
  __shared__ float parts[kWarps][T::kRows];
  const int thread = int(threadIdx.x), warp = thread / 32, lane = thread % 32;
  constexpr int kLanes = 32 / T::kRows;
  if (lane % kLanes == 0) parts[warp][lane / kLanes] = sum;
  __syncthreads();
  if (thread >= T::kRowsOfBlock) return 0;
  float all = 0;
  for (int i = 0; i < T::kSplit; ++i)
    all += parts[thread / T::kRows * T::kSplit + i][thread % T::kRows];
  return all;
}

// The row that this thread writes. Where one warp sums a row alone, the first lane that has the sum
// writes it.
template <class T>
__device__ __forceinline__ std::int64_t row_to_write(std::int64_t first_of_block) {
  if constexpr (T::kSplit > 1)
    return threadIdx.x < T::kRowsOfBlock ? first_of_block + threadIdx.x : INT64_MAX;
  constexpr int kLanes = 32 / T::kRows;
  return threadIdx.x % kLanes == 0 ? first_of_block + threadIdx.x / kLanes : INT64_MAX;
}

template <QuantFormat F, class T>
__device__ __forceinline__ void multiply(const Job& job, const Jobs& jobs, std::byte* shared) {
  using Lane = LaneDot<F, T::kRows>;
  using Stages = typename T::template Stages<F>;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const std::int64_t first = std::int64_t(blockIdx.x - unsigned(job.first_block)) * T::kRowsOfBlock;
  const RowGroup rows{job.view, first + warp / T::kSplit * T::kRows, job.rows, jobs.columns};
  const std::int64_t row = row_to_write<T>(first);
  float sum = 0, added = 0;
  const auto ready = [&] {
    wait_for_inputs();
    if (row >= job.rows) return;
    if (job.bias) added = load_input4(job.bias + row);
    if (job.add) added += load_input4(job.add + row);
  };
  if (rows.row < rows.rows)
    stream_rows<Lane, T::kRows, Stages>(
        shared + warp * Stages::kBytes, steps_of<Lane>(jobs.columns, warp % T::kSplit, T::kSplit),
        1, [&](int) { return rows; }, ready, [&](int) { return jobs.x; },
        [&](int, const float(&sums)[T::kRows]) { sum = sum_rows(sums, lane); });
  if constexpr (T::kSplit > 1) sum = sum_of_warps<T>(sum);
  if (row < job.rows) job.out[row] = sum + added;
}

__device__ __forceinline__ int job_of_block(const Jobs& jobs) {
  int index = 0;
  for (int i = 1; i < int(kMaxJobs); ++i) index += int(blockIdx.x) >= jobs.job[i].first_block;
  return index;
}

template <QuantFormat F, class T>
inline constexpr int kBlocks = blocks_that_fit<typename T::template Stages<F>>(kWarps, T::kBlocks);

template <QuantFormat F, class T>
__global__ void __launch_bounds__(32 * kWarps, kBlocks<F, T>)
    matvec_one_format(const __grid_constant__ Jobs jobs) {
  extern __shared__ __align__(16) std::byte shared[];
  allow_next_kernel();
  multiply<F, T>(jobs.job[job_of_block(jobs)], jobs, shared);
}

// Kernels for the pairs of formats that occur in files: they need fewer registers than one for all
// formats.
template <QuantFormat F, QuantFormat G, class T>
__global__ void __launch_bounds__(32 * kWarps, kBlocks<G, T>)
    matvec_two_formats(const __grid_constant__ Jobs jobs) {
  extern __shared__ __align__(16) std::byte shared[];
  allow_next_kernel();
  const Job& job = jobs.job[job_of_block(jobs)];
  if (job.format == F)
    multiply<F, T>(job, jobs, shared);
  else
    multiply<G, T>(job, jobs, shared);
}

template <template <QuantFormat> class TilingOf>
__global__ void __launch_bounds__(32 * kWarps, 4)
    matvec_any_format(const __grid_constant__ Jobs jobs) {
  extern __shared__ __align__(16) std::byte shared[];
  allow_next_kernel();
  const Job& job = jobs.job[job_of_block(jobs)];
  on_device_for_format(job.format,
                       [&]<QuantFormat F>() { multiply<F, TilingOf<F>>(job, jobs, shared); });
}

// The rows and the shared memory of a block under a format's tiling.
struct ThreadBlock {
  int rows = 0;
  std::size_t shared_bytes = 0;
};
template <template <QuantFormat> class TilingOf>
ThreadBlock thread_block_of(QuantFormat format) {
  ThreadBlock block;
  for_format(format, [&]<QuantFormat F>() {
    using T = TilingOf<F>;
    block = {T::kRowsOfBlock, kWarps * T::template Stages<F>::kBytes};
  });
  return block;
}

template <template <QuantFormat> class TilingOf>
Shape place_jobs(std::span<const MatvecJob> from, Jobs& jobs) {
  std::int64_t blocks = 0;
  Shape shape{dim3(1), dim3(32 * kWarps)};
  for (std::size_t i = 0; i < from.size(); ++i) {
    const DeviceMatrix& w = from[i].w;
    const ThreadBlock block = thread_block_of<TilingOf>(w.format);
    jobs.job[i] = {view_of(w),   w.format,    w.rows,     from[i].out,
                   from[i].bias, from[i].add, int(blocks)};
    blocks += (w.rows + block.rows - 1) / block.rows;
    shape.shared_bytes = std::max(shape.shared_bytes, block.shared_bytes);
  }
  shape.grid.x = unsigned(blocks);
  return shape;
}

bool all_among(std::span<const MatvecJob> jobs, QuantFormat a, QuantFormat b) {
  return std::ranges::all_of(
      jobs, [&](const MatvecJob& job) { return job.w.format == a || job.w.format == b; });
}

using Kernel = void (*)(Jobs);

bool have_one_format(std::span<const MatvecJob> jobs) {
  return all_among(jobs, jobs[0].w.format, jobs[0].w.format);
}

template <template <QuantFormat> class TilingOf>
Kernel kernel_of_format(QuantFormat format) {
  Kernel kernel = nullptr;
  for_format(format, [&]<QuantFormat F>() { kernel = matvec_one_format<F, TilingOf<F>>; });
  return kernel;
}

template <template <QuantFormat> class TilingOf>
Kernel kernel_for(std::span<const MatvecJob> jobs) {
  using enum QuantFormat;
  if (have_one_format(jobs)) return kernel_of_format<TilingOf>(jobs[0].w.format);
  if (all_among(jobs, kQ4_K, kQ6_K)) return matvec_two_formats<kQ4_K, kQ6_K, TilingOf<kQ4_K>>;
  if (all_among(jobs, kQ5_K, kQ6_K)) return matvec_two_formats<kQ5_K, kQ6_K, TilingOf<kQ5_K>>;
  return matvec_any_format<TilingOf>;
}

template <template <QuantFormat> class TilingOf>
void launch_jobs(std::span<const MatvecJob> from, Jobs& jobs, Kernel kernel, const Stream& stream,
                 Start start) {
  const Shape shape = place_jobs<TilingOf>(from, jobs);
  RIGCAST_CUDA_CALL(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         int(shape.shared_bytes)));
  launch(stream, shape, start, kernel, jobs);
}

}  // namespace

void matvec(std::span<const MatvecJob> jobs, const Inputs& x, const Stream& stream, Start start) {
  if (jobs.empty()) return;
  if (jobs.size() > kMaxJobs) throw std::invalid_argument("matvec: more jobs than one launch has");
  std::int64_t rows = 0;
  for (const MatvecJob& job : jobs) {
    if (job.w.columns != jobs[0].w.columns || job.w.columns % 32 != 0)
      throw std::invalid_argument("matvec: jobs must share columns, a multiple of 32");
    rows += job.w.rows;
  }
  Jobs placed{};
  for (Job& job : placed.job) job.first_block = INT_MAX;
  placed.columns = int(jobs[0].w.columns);
  placed.x = x;
  const int multiprocessors = device_facts().multiprocessors;
  if (has_many_rows(rows, multiprocessors))
    launch_jobs<ManyRows>(jobs, placed, kernel_for<ManyRows>(jobs), stream, start);
  else if (needs_fifth_block(rows, multiprocessors) && have_one_format(jobs))
    launch_jobs<FewRowsInFiveBlocks>(
        jobs, placed, kernel_of_format<FewRowsInFiveBlocks>(jobs[0].w.format), stream, start);
  else
    launch_jobs<FewRows>(jobs, placed, kernel_for<FewRows>(jobs), stream, start);
}

}  // namespace rigcast::engine::cuda
