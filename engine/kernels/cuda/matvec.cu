#include "engine/kernels/cuda/matvec.cuh"

#include <algorithm>
#include <climits>
#include <stdexcept>

#include "engine/kernels/cuda/for_format.cuh"
#include "engine/kernels/cuda/row_stream.cuh"

namespace rigcast::engine::cuda {
namespace {

constexpr int kWarps = 4;

template <class Lane>
using Stages = Ring<Lane, 10400>;

struct Job {
  PlaneView view;
  QuantFormat format;
  std::int64_t rows;
  float* out;
  const float* bias;
  const float* add;
  int first_block = INT_MAX;
};

struct Jobs {
  Job job[kMostJobs];
  int columns;
  Inputs x;
};

template <QuantFormat F, int kRows>
__device__ __forceinline__ void multiply(const Job& job, const Jobs& jobs, std::byte* shared) {
  using Lane = LaneDot<F, kRows>;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const std::int64_t group = std::int64_t(blockIdx.x - unsigned(job.first_block)) * kWarps + warp;
  const RowGroup rows{job.view, group * kRows, job.rows, jobs.columns};
  if (rows.row >= rows.rows) return;
  stream_rows<Lane, kRows, Stages<Lane>>(
      shared + warp * Stages<Lane>::kBytes, jobs.columns, 1, [&](int) { return rows; },
      [] { wait_for_inputs(); }, [&](int) { return jobs.x; },
      [&](int, const float(&sums)[kRows]) {
        float sum = sum_rows(sums, lane);
        const std::int64_t row = rows.row + lane / (32 / kRows);
        if (lane % (32 / kRows) != 0 || row >= rows.rows) return;
        if (job.bias) sum += load_input4(job.bias + row);
        if (job.add) sum += load_input4(job.add + row);
        job.out[row] = sum;
      });
}

__device__ __forceinline__ int job_of_block(const Jobs& jobs) {
  int index = 0;
  for (int i = 1; i < int(kMostJobs); ++i) index += int(blockIdx.x) >= jobs.job[i].first_block;
  return index;
}

template <QuantFormat F, int kRows>
inline constexpr int kBlocks = blocks_that_fit<Stages<LaneDot<F, kRows>>>(kWarps,
                                                                          kRows > 2 ? 5 : 7);

template <QuantFormat F, int kRows>
__global__ void __launch_bounds__(32 * kWarps, kBlocks<F, kRows>)
    matvec_one_format(const __grid_constant__ Jobs jobs) {
  extern __shared__ __align__(16) std::byte shared[];
  let_next_start();
  multiply<F, kRows>(jobs.job[job_of_block(jobs)], jobs, shared);
}

// For the mixes that files have: fewer registers than with all formats.
template <QuantFormat F, QuantFormat G, int kRows>
__global__ void __launch_bounds__(32 * kWarps, kBlocks<G, kRows>)
    matvec_two_formats(const __grid_constant__ Jobs jobs) {
  extern __shared__ __align__(16) std::byte shared[];
  let_next_start();
  const Job& job = jobs.job[job_of_block(jobs)];
  if (job.format == F)
    multiply<F, kRows>(job, jobs, shared);
  else
    multiply<G, kRows>(job, jobs, shared);
}

template <int kRows>
__global__ void __launch_bounds__(32 * kWarps, 4)
    matvec_any_format(const __grid_constant__ Jobs jobs) {
  extern __shared__ __align__(16) std::byte shared[];
  let_next_start();
  const Job& job = jobs.job[job_of_block(jobs)];
  on_device_for_format(job.format, [&]<QuantFormat F>() { multiply<F, kRows>(job, jobs, shared); });
}

// Two rows a warp where four would leave multiprocessors with few warps.
constexpr std::int64_t kManyRows = 4 * 132 * 11;

struct Blocks {
  unsigned count = 0;
  bool same_format = true;
};

Blocks place_jobs(std::span<const MatvecJob> from, Jobs& jobs, int rows_of_block) {
  Blocks blocks;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const Matrix& w = from[i].w;
    jobs.job[i] = {view_of(w),   w.format,    w.rows,           from[i].out,
                   from[i].bias, from[i].add, int(blocks.count)};
    blocks.count += unsigned((w.rows + rows_of_block - 1) / rows_of_block);
    blocks.same_format = blocks.same_format && w.format == from[0].w.format;
  }
  return blocks;
}

template <int kRows>
std::size_t shared_bytes(QuantFormat format) {
  std::size_t bytes = 0;
  for_format(format, [&]<QuantFormat F>() { bytes = kWarps * Stages<LaneDot<F, kRows>>::kBytes; });
  return bytes;
}

bool all_among(std::span<const MatvecJob> jobs, QuantFormat a, QuantFormat b) {
  return std::ranges::all_of(
      jobs, [&](const MatvecJob& job) { return job.w.format == a || job.w.format == b; });
}

void launch_jobs(void (*kernel)(Jobs), const Jobs& jobs, const Shape& shape, const Stream& stream,
                 Start start) {
  RIGCAST_CUDA_CALL(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         int(shape.shared_bytes)));
  launch(stream, shape, start, kernel, jobs);
}

template <int kRows>
void matvec_rows(std::span<const MatvecJob> from, Jobs& jobs, const Stream& stream, Start start) {
  const Blocks blocks = place_jobs(from, jobs, kRows * kWarps);
  Shape shape{dim3(blocks.count), dim3(32 * kWarps)};
  shape.shared_percent = shared_percent_for(from[0].w.format);
  for (const MatvecJob& job : from)
    shape.shared_bytes = std::max(shape.shared_bytes, shared_bytes<kRows>(job.w.format));
  if (!blocks.same_format) {
    using enum QuantFormat;
    auto* kernel = matvec_any_format<kRows>;
    if (all_among(from, kQ4_K, kQ6_K)) kernel = matvec_two_formats<kQ4_K, kQ6_K, kRows>;
    if (all_among(from, kQ5_K, kQ6_K)) kernel = matvec_two_formats<kQ5_K, kQ6_K, kRows>;
    return launch_jobs(kernel, jobs, shape, stream, start);
  }
  for_format(from[0].w.format, [&]<QuantFormat F>() {
    launch_jobs(matvec_one_format<F, kRows>, jobs, shape, stream, start);
  });
}

}  // namespace

void matvec(std::span<const MatvecJob> jobs, const Inputs& x, const Stream& stream, Start start) {
  if (jobs.empty()) return;
  if (jobs.size() > kMostJobs) throw std::invalid_argument("matvec: more jobs than one launch has");
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
  if (rows >= kManyRows)
    matvec_rows<4>(jobs, placed, stream, start);
  else
    matvec_rows<2>(jobs, placed, stream, start);
}

}  // namespace rigcast::engine::cuda
