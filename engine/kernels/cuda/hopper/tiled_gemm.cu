#include "engine/kernels/cuda/hopper/tiled_gemm.cuh"

#include <algorithm>
#include <stdexcept>

#include "engine/kernels/cuda/hopper/for_tiles.cuh"
#include "engine/kernels/cuda/hopper/tiled_kernel.cuh"

namespace rigcast::engine::cuda {
namespace {

std::int64_t tiles_of(std::int64_t rows) { return (rows + kTiledRows - 1) / kTiledRows; }

// The most blocks a cluster that still run at once, two a multiprocessor, with at least four blocks
// of 256 columns each: loading two ahead pays off only then.
int cluster_for(std::int64_t tiles, int blocks) {
  const int room = 2 * device_facts().multiprocessors;
  int cluster = 1;
  while (cluster < 8 && tiles * cluster * 2 <= room && blocks / (cluster * 2) >= 4) cluster *= 2;
  return cluster;
}

template <int kTokens>
void launch_with(void (*kernel)(TiledWork), const TiledWork& work, std::int64_t tiles,
                 const Stream& stream) {
  constexpr int kBytes = TiledRing<kTokens>::kBytes;
  RIGCAST_CUDA_CALL(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  Shape shape{dim3(unsigned(tiles * work.cluster)), dim3(32 * kTiledWarps), std::size_t(kBytes)};
  shape.cluster = unsigned(work.cluster);
  launch(stream, shape, Start::kEarly, kernel, work);
}

// Calls `call` with the formats as constants: one alone, or those that occur together in files.
template <class Call>
void for_formats(QuantFormat first, QuantFormat second, const Call& call) {
  using enum QuantFormat;
  if (first == second)
    return for_tiled_format(first, [&]<QuantFormat F>() { call.template operator()<F, F>(); });
  if (second == kQ6_K && first == kQ4_K) return call.template operator()<kQ4_K, kQ6_K>();
  if (second == kQ6_K && first == kQ5_K) return call.template operator()<kQ5_K, kQ6_K>();
  throw std::invalid_argument("tiled_gemm: formats that are not multiplied in one launch");
}

void check(const DeviceMatrix& w, std::int64_t columns, int tokens) {
  if (!has_tiled_gemm()) throw std::invalid_argument("tiled_gemm: not on this GPU");
  if (!supports_tiled_gemm(w.format) || w.columns != columns || columns % kTileColumns != 0 ||
      tokens > kMaxTiledTokens)
    throw std::invalid_argument("tiled_gemm: a format or shape that it does not take");
}

TiledWork work_of(const TiledBatch& x, std::int64_t columns) {
  TiledWork work;
  work.blocks = int(columns / kTileColumns);
  work.x = x.x;
  work.tokens = x.tokens;
  return work;
}

// Launches jobs of one format, or of two that for_formats() takes.
void launch_jobs(std::span<const SmallBatchJob> jobs, TiledWork work, const Stream& stream) {
  const QuantFormat first = jobs.front().w.format, last = jobs.back().w.format;
  std::int64_t tiles = 0;
  for (const SmallBatchJob& job : jobs) {
    work.parts[work.part_count++] = {view_of(job.w), job.w.rows, job.out,
                                     job.bias,       int(tiles), job.w.format != first};
    tiles += tiles_of(job.w.rows);
  }
  work.cluster = cluster_for(tiles, work.blocks);
  for_formats(first, last, [&]<QuantFormat F, QuantFormat G>() {
    for_tiled_tokens(work.tokens, [&]<int kTokens>() {
      launch_with<kTokens>(tiled_kernel<F, G, kTokens>, work, tiles, stream);
    });
  });
}

// The number of jobs from the first on that one launch takes.
std::size_t together(std::span<const SmallBatchJob> jobs) {
  using enum QuantFormat;
  const QuantFormat first = jobs.front().w.format;
  std::size_t count = 1;
  while (count < jobs.size() && jobs[count].w.format == first) ++count;
  if (first != kQ6_K)
    while (count < jobs.size() && jobs[count].w.format == kQ6_K) ++count;
  return count;
}

}  // namespace

bool has_tiled_gemm() {
  const DeviceFacts& gpu = device_facts();
  return RIGCAST_HAS_HOPPER_CODE && gpu.capability == 90 && gpu.compiled_for >= 90;
}

void tiled_gemm(std::span<const SmallBatchJob> jobs, const TiledBatch& x,
                const SmallBatchRows& rows, const Stream& stream) {
  if (jobs.empty() || jobs.size() > kMaxJobs)
    throw std::invalid_argument("tiled_gemm: one to three jobs");
  if (x.tokens == 0) return;
  const std::int64_t columns = jobs.front().w.columns;
  for (const SmallBatchJob& job : jobs) check(job.w, columns, x.tokens);
  TiledWork work = work_of(x, columns);
  work.stride = rows.stride;
  work.add = rows.add;
  while (!jobs.empty()) {
    const std::size_t count = together(jobs);
    launch_jobs(jobs.first(count), work, stream);
    jobs = jobs.subspan(count);
  }
}

void tiled_gate_up(const DeviceMatrix& gate, const DeviceMatrix& up, const TiledBatch& x,
                   __half* out, const Stream& stream) {
  if (gate.rows != up.rows || gate.format != up.format || gate.rows % kTileColumns != 0)
    throw std::invalid_argument("tiled_gate_up: matrices that it does not take");
  if (x.tokens == 0) return;
  check(gate, gate.columns, x.tokens);
  check(up, gate.columns, x.tokens);
  TiledWork work = work_of(x, gate.columns);
  work.parts[0] = {view_of(gate), gate.rows};
  work.parts[1] = {view_of(up), up.rows};
  work.part_count = 2;
  work.ffn_hidden = out;
  const std::int64_t tiles = tiles_of(2 * gate.rows);
  for_tiled_format(gate.format, [&]<QuantFormat F>() {
    for_tiled_tokens(x.tokens, [&]<int kTokens>() {
      launch_with<kTokens>(tiled_gate_up_kernel<F, kTokens>, work, tiles, stream);
    });
  });
}

}  // namespace rigcast::engine::cuda
