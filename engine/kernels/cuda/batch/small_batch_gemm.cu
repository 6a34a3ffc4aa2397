#include "engine/kernels/cuda/batch/small_batch_gemm.cuh"

#include <algorithm>
#include <stdexcept>

#include "engine/kernels/cuda/batch/small_batch_kernel.cuh"
#include "engine/kernels/cuda/weights/for_format.cuh"

namespace rigcast::engine::cuda {
namespace {

// Calls `call` for a supported format.
template <class Call>
void for_tiled_format(QuantFormat format, const Call& call) {
  for_format(format, [&]<QuantFormat F>() {
    if constexpr (supports_small_batch_gemm(F)) call.template operator()<F>();
  });
}

std::int64_t tiles_of(std::int64_t rows, int row_warps) {
  return (rows + row_warps * kTileRows - 1) / (row_warps * kTileRows);
}

template <QuantFormat F, int kTokens>
void launch_with(const SmallBatchWork& work, const Shape& grid, const Stream& stream) {
  Shape shape = grid;
  shape.shared_bytes = std::max(
      grid.shared_bytes, std::size_t(SmallBatchShape<F, kTokens>::shared_bytes(work.row_warps)));
  auto* const kernel = small_batch_kernel<F, kTokens>;
  RIGCAST_CUDA_CALL(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         int(shape.shared_bytes)));
  launch(stream, shape, Start::kEarly, kernel, work);
}

void launch_as(QuantFormat format, int tokens, const SmallBatchWork& work, const Shape& grid,
               const Stream& stream) {
  for_tiled_format(format, [&]<QuantFormat F>() {
    if (tokens == 16) return launch_with<F, 16>(work, grid, stream);
    if (tokens == 32) return launch_with<F, 32>(work, grid, stream);
    launch_with<F, 64>(work, grid, stream);
  });
}

int shared_bytes_of(QuantFormat format, int tokens, int row_warps) {
  int bytes = 0;
  for_tiled_format(format, [&]<QuantFormat F>() {
    bytes = tokens == 16   ? SmallBatchShape<F, 16>::shared_bytes(row_warps)
            : tokens == 32 ? SmallBatchShape<F, 32>::shared_bytes(row_warps)
                           : SmallBatchShape<F, 64>::shared_bytes(row_warps);
  });
  return bytes;
}

// Chooses the largest tiles with which nearly every multiprocessor still has one: the larger a
// tile, the more often its loads are used. Values of `asked` that are not 0 stay.
SmallBatchSplit cut_for(const SmallBatchSplit& asked, QuantFormat format, int tokens,
                        std::int64_t rows) {
  const int processors = device_facts().multiprocessors;
  const int room = device_facts().block_shared_bytes - 1024;
  SmallBatchSplit cut;
  for (const int of_tile : {64, 32, 16}) {
    if (asked.tokens > 0 ? of_tile != asked.tokens : of_tile > 16 && tokens <= of_tile / 2)
      continue;
    for (const int warps : {8, 4, 2, 1}) {
      if (warps < asked.row_warps) break;
      if (shared_bytes_of(format, of_tile, warps) > room) break;
      cut = {of_tile, warps};
      const std::int64_t blocks = tiles_of(rows, warps) * ((tokens + of_tile - 1) / of_tile);
      if (asked.row_warps == 0 && blocks * 5 >= processors * 4) return cut;
    }
  }
  return cut;
}

void check(const DeviceMatrix& w, std::int64_t columns) {
  if (!has_small_batch_gemm()) throw std::invalid_argument("small_batch_gemm: not on this GPU");
  if (!supports_small_batch_gemm(w.format) || w.columns != columns || columns % 32 != 0)
    throw std::invalid_argument("small_batch_gemm: a format, or columns, that it does not take");
}

// Shared memory that limits a multiprocessor to one block, where there are enough blocks: blocks
// that start early would share the few multiprocessors that are free, and end late.
std::size_t one_block_shared_bytes(std::int64_t blocks) {
  const DeviceFacts& gpu = device_facts();
  if (blocks > gpu.multiprocessors) return 0;
  return std::size_t(std::min(gpu.multiprocessor_shared_bytes / 2, gpu.block_shared_bytes - 1024));
}

// Launches all jobs of one format.
void launch_jobs(std::span<const SmallBatchJob> jobs, SmallBatchWork work,
                 const SmallBatchSplit& asked, const Stream& stream) {
  const QuantFormat format = jobs.front().w.format;
  std::int64_t rows = 0, tiles = 0;
  for (const SmallBatchJob& job : jobs) rows += job.w.rows;
  const SmallBatchSplit cut = cut_for(asked, format, work.tokens, rows);
  for (const SmallBatchJob& job : jobs) {
    work.parts[work.part_count++] = {view_of(job.w), job.w.rows, job.out, job.bias, int(tiles)};
    tiles += tiles_of(job.w.rows, cut.row_warps);
  }
  work.row_warps = cut.row_warps;
  const int batches = (work.tokens + cut.tokens - 1) / cut.tokens;
  const dim3 grid(static_cast<unsigned>(batches), static_cast<unsigned>(tiles));
  launch_as(format, cut.tokens, work,
            {grid, dim3(kSmallBatchThreads), one_block_shared_bytes(batches * tiles)}, stream);
}

void launch_groups(const DeviceMatrixStack& stack, const ExpertGroups& g, SmallBatchWork work,
                   const Stream& stream) {
  const DeviceMatrix& w = stack.first;
  check(w, w.columns);
  work.parts[0] = {view_of(w), w.rows, work.parts[0].out, stack.bias, 0};
  work.part_count = 1;
  work.units = int(w.columns / 32);
  work.tokens = g.tokens;
  // The groups alone occupy all multiprocessors.
  work.row_warps =
      cut_for({g.group_tokens, kSmallBatchWarps}, w.format, g.group_tokens, w.rows).row_warps;
  work.stride = w.rows;
  work.groups = g.groups;
  work.group_count = g.group_count;
  work.order = g.order;
  work.expert_stride = stack.stride;
  launch_as(w.format, g.group_tokens, work,
            {dim3(unsigned(tiles_of(w.rows, work.row_warps)), unsigned(visited_groups(g))),
             dim3(kSmallBatchThreads)},
            stream);
}

void check_gate_up(const DeviceMatrix& gate, const DeviceMatrix& up) {
  if (gate.rows != up.rows || gate.columns != up.columns)
    throw std::invalid_argument("gate and up must be alike");
}

}  // namespace

bool has_small_batch_gemm() { return device_facts().compiled_for >= 80; }

void small_batch_gemm(std::span<const SmallBatchJob> jobs, const Fp16Batch& x,
                      const SmallBatchRows& rows, const Stream& stream,
                      const SmallBatchSplit& cut) {
  if (jobs.empty() || jobs.size() > kMaxJobs)
    throw std::invalid_argument("small_batch_gemm: one to three jobs");
  if (x.tokens == 0) return;
  const std::int64_t columns = jobs.front().w.columns;
  for (const SmallBatchJob& job : jobs) check(job.w, columns);
  SmallBatchWork work;
  work.units = int(columns / 32);
  work.x = x.x;
  work.tokens = x.tokens;
  work.stride = rows.stride;
  work.add = rows.add;
  for (std::size_t first = 0; first < jobs.size();) {
    std::size_t end = first + 1;
    while (end < jobs.size() && jobs[end].w.format == jobs[first].w.format) ++end;
    launch_jobs(jobs.subspan(first, end - first), work, cut, stream);
    first = end;
  }
}

void small_batch_gate_up(const DeviceMatrix& gate, const DeviceMatrix& up, const Fp16Batch& x,
                         float* gate_out, __half* out, const Stream& stream,
                         const SmallBatchSplit& cut, GateFunction function) {
  check_gate_up(gate, up);
  check(up, gate.columns);
  const SmallBatchJob first{gate, gate_out}, second{up};
  small_batch_gemm({&first, 1}, x, {gate.rows}, stream, cut);
  if (x.tokens == 0) return;
  SmallBatchWork work;
  work.units = int(up.columns / 32);
  work.x = x.x;
  work.tokens = x.tokens;
  work.gate = gate_out;
  work.function = function;
  work.ffn_hidden = out;
  launch_jobs({&second, 1}, work, cut, stream);
}

void grouped_gate_up(const DeviceMatrixStack& gate, const DeviceMatrixStack& up,
                     const ExpertGroups& groups, const __half* x, float* gate_out, __half* out,
                     const Stream& stream, GateFunction function) {
  check_gate_up(gate.first, up.first);
  SmallBatchWork work;
  work.x = x;
  work.choices_of_row = groups.chosen.used;
  SmallBatchWork second = work;
  work.parts[0].out = gate_out;
  launch_groups(gate, groups, work, stream);
  second.gate = gate_out;
  second.function = function;
  second.ffn_hidden = out;
  launch_groups(up, groups, second, stream);
}

void grouped_down(const DeviceMatrixStack& down, const ExpertGroups& groups, const __half* x,
                  float* out, const Stream& stream) {
  SmallBatchWork work;
  work.x = x;
  work.parts[0].out = out;
  launch_groups(down, groups, work, stream);
}

}  // namespace rigcast::engine::cuda
