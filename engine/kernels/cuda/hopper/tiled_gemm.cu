#include "engine/kernels/cuda/hopper/tiled_gemm.cuh"

#include <stdexcept>

#include "engine/kernels/cuda/hopper/tiled_launch.cuh"

namespace rigcast::engine::cuda {
namespace {

std::int64_t tiles_of(std::int64_t rows) { return (rows + kTiledRows - 1) / kTiledRows; }

// The most blocks a cluster that still run at once, two a multiprocessor, with at least four blocks
// of 256 columns each: loading two ahead pays off only then. Two are enough where half of the
// multiprocessors would have none.
int cluster_for(std::int64_t tiles, int blocks) {
  const int processors = device_facts().multiprocessors;
  int cluster = 1;
  while (cluster < 8 && tiles * cluster * 2 <= 2 * processors) {
    const int each = blocks / (cluster * 2);
    if (each < (tiles * cluster * 2 < processors ? 2 : 4)) break;
    cluster *= 2;
  }
  return cluster;
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

// Launches jobs of one format, or of two that launch_tiled() takes together.
void launch_jobs(std::span<const SmallBatchJob> jobs, TiledWork work, Start start,
                 const Stream& stream) {
  const QuantFormat first = jobs.front().w.format, last = jobs.back().w.format;
  std::int64_t tiles = 0;
  for (const SmallBatchJob& job : jobs) {
    work.parts[work.part_count++] = {view_of(job.w), job.w.rows, job.out,
                                     job.bias,       int(tiles), job.w.format != first};
    tiles += tiles_of(job.w.rows);
  }
  work.cluster = cluster_for(tiles, work.blocks);
  launch_tiled({first, last}, work.tokens, work, tiles, 1, start, stream);
}

// The number of jobs from the first on that one launch takes.
std::size_t together(std::span<const SmallBatchJob> jobs) {
  using enum QuantFormat;
  const QuantFormat first = jobs.front().w.format;
  std::size_t count = 1;
  while (count < jobs.size() && jobs[count].w.format == first) ++count;
  if (first == kQ4_K || first == kQ5_K)
    while (count < jobs.size() && jobs[count].w.format == kQ6_K) ++count;
  return count;
}

}  // namespace

bool has_tiled_gemm() {
  const DeviceFacts& gpu = device_facts();
  return has_tiled_code() && gpu.capability == 90 && gpu.compiled_for >= 90;
}

void tiled_gemm(std::span<const SmallBatchJob> jobs, const TiledBatch& x,
                const SmallBatchRows& rows, const Stream& stream, Start start) {
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
    launch_jobs(jobs.first(count), work, start, stream);
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
  launch_tiled({gate.format, gate.format}, x.tokens, work, tiles_of(2 * gate.rows), 1,
               Start::kEarly, stream);
}

}  // namespace rigcast::engine::cuda
