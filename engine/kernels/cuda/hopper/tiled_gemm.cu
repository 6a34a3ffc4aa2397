#include "engine/kernels/cuda/hopper/tiled_gemm.cuh"

#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include "engine/kernels/cuda/hopper/tiled_launch.cuh"

namespace rigcast::engine::cuda {
namespace {

std::int64_t tiles_of(std::int64_t rows) { return (rows + kTiledRows - 1) / kTiledRows; }

// The blocks of a cluster, with which each has the fewest blocks of 256 columns among sizes of
// which all clusters run at once: down of an 8B model on an H200, 32 tiles of rows, has 7. Of 8 the
// GPU runs 30 at once, and the last two took as long again: 18.6 us in place of 13.4, of 8 tokens.
// Batches of 33 to 64 tokens leave places free: with none, kernels that start early wait for
// one another, which took longer than larger shares do. Loads run up to two blocks ahead: shares
// have at least three, or two where a multiprocessor would have nothing otherwise.
int cluster_for(const TiledFormats& formats, std::int64_t tiles, int blocks, int tokens) {
  const int processors = device_facts().multiprocessors;
  const auto run_at_once = [&](int cluster) {
    const std::int64_t places = tiled_clusters(formats, tokens, cluster);
    return tiled_tokens(tokens) == 64 ? tiles * 8 <= places * 7 : tiles <= places;
  };
  int best = 1;
  const auto share = [&](int cluster) { return (blocks + cluster - 1) / cluster; };
  for (int cluster = 2; cluster <= kMaxCluster; ++cluster) {
    const int least = tiles * cluster <= processors ? 2 : 3;
    if (blocks / cluster < least) break;
    if (share(cluster) < share(best) && run_at_once(cluster)) best = cluster;
  }
  return best;
}

void check(const DeviceMatrix& w, std::int64_t columns, int tokens) {
  if (!has_tiled_gemm()) throw std::invalid_argument("tiled_gemm: not on this GPU");
  if (!takes_tiled_columns(w) || w.columns != columns || tokens > kMaxTiledTokens)
    throw std::invalid_argument("tiled_gemm: a format or shape that it does not take");
}

TiledWork work_of(const TiledBatch& x, std::int64_t columns) {
  TiledWork work;
  work.units = int(columns / 32);
  work.blocks = int(tiled_columns(columns) / kTileColumns);
  work.x = x.x;
  work.tokens = x.tokens;
  work.token_tiles = padded_tokens(x.tokens) / tiled_tokens(x.tokens);
  return work;
}

// True if all rows of the output are aligned to 16 bytes.
bool fours(std::span<const SmallBatchJob> jobs, std::int64_t stride) {
  return stride % 4 == 0 && std::ranges::all_of(jobs, [](const SmallBatchJob& job) {
           return reinterpret_cast<std::uintptr_t>(job.out) % 16 == 0;
         });
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
  work.by_four = fours(jobs, work.stride);
  work.cluster = cluster_for({first, last}, tiles * work.token_tiles, work.blocks, work.tokens);
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

bool takes_tiled_columns(const DeviceMatrix& w) {
  return supports_tiled_gemm(w.format) && w.columns % 32 == 0 && w.columns >= kTileColumns;
}

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
                   __half* out, const Stream& stream, GateFunction function) {
  if (gate.rows != up.rows || gate.format != up.format)
    throw std::invalid_argument("tiled_gate_up: matrices that it does not take");
  if (x.tokens == 0) return;
  check(gate, gate.columns, x.tokens);
  check(up, gate.columns, x.tokens);
  TiledWork work = work_of(x, gate.columns);
  work.parts[0] = {view_of(gate), gate.rows};
  work.parts[1] = {view_of(up), up.rows};
  work.part_count = 2;
  work.ffn_hidden = out;
  work.function = function;
  const std::int64_t tiles = tiles_of(2 * tiled_columns(gate.rows));
  launch_tiled({gate.format, gate.format}, x.tokens, work, tiles, 1, Start::kEarly, stream);
}

}  // namespace rigcast::engine::cuda
