#include "engine/kernels/cuda/hopper/tiled_experts.cuh"

#include <stdexcept>

#include "engine/kernels/cuda/hopper/for_tiles.cuh"
#include "engine/kernels/cuda/hopper/tiled_gemm.cuh"
#include "engine/kernels/cuda/hopper/tiled_kernel.cuh"

namespace rigcast::engine::cuda {
namespace {

struct GroupWork {
  SoaView first, second;  // of expert 0: gate and up, or down
  std::size_t first_stride = 0, second_stride = 0;
  std::int64_t rows = 0;
  int blocks = 0;  // of 256 columns
  const __half* x = nullptr;
  const ExpertGroup* groups = nullptr;
  const int* group_count = nullptr;
  const int* order = nullptr;
  __half* hidden = nullptr;  // gate and up
  float* out = nullptr;      // down
};

#if RIGCAST_HOPPER_CODE

__device__ __forceinline__ SoaView of_expert(const SoaView& v, std::size_t at) {
  const auto moved = [&](const std::uint8_t* p) { return p ? p + at : nullptr; };
  return {moved(v.codes), moved(v.high), moved(v.fields), moved(v.scales)};
}

__device__ __forceinline__ ExpertGroup group_of_block(const GroupWork& work) {
  const int* from = &work.groups[blockIdx.y].expert;
  return {__ldcg(from), __ldcg(from + 1), __ldcg(from + 2)};
}

template <int kTokens>
__device__ __forceinline__ const std::byte* inputs_of_group(const GroupWork& work) {
  return reinterpret_cast<const std::byte*>(work.x) +
         std::int64_t(blockIdx.y) * work.blocks * TiledRing<kTokens>::kStageBytes;
}

template <QuantFormat F, int kTokens>
__device__ __forceinline__ void multiply_group_gate_up(std::byte* shared, std::uint64_t* barriers,
                                                       const GroupWork& work) {
  const ExpertGroup group = group_of_block(work);
  const std::int64_t units = std::int64_t(work.blocks) * 8;
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4;
  const std::int64_t row = std::int64_t(blockIdx.x) * (kTiledRows / 2) + warp * 8 + g;
  const std::int64_t read = min(row, work.rows - 1);
  const auto row_of = [&](const SoaView& view, std::size_t stride) {
    return RowAt{of_expert(view, std::size_t(group.expert) * stride), read, units};
  };
  const typename LaneWeights<F>::Source source(row_of(work.first, work.first_stride),
                                               row_of(work.second, work.second_stride), 0,
                                               threadIdx.x % 4);
  InputRing<kTokens> ring(shared, barriers, inputs_of_group<kTokens>(work), work.blocks);
  LaneSums<kTokens> sums = {};
  add_blocks<F, kTokens>(source, work.blocks, ring, sums);
  if (row >= work.rows) return;
  __half* const to = work.hidden + std::int64_t(blockIdx.y) * kTokens * work.rows;
#pragma unroll
  for (int i = 0; i < kTokens / 2; ++i)
    if (i % 4 < 2 && token_of_sum(i) < group.count)
      to[tiled_index(row, token_of_sum(i), kTokens)] =
          half_in_range(silu_of_gate(sums[i]) * sums[i + 2]);
}

template <QuantFormat F, int kTokens>
__device__ __forceinline__ void multiply_group_down(std::byte* shared, std::uint64_t* barriers,
                                                    const GroupWork& work) {
  const ExpertGroup group = group_of_block(work);
  const std::int64_t units = std::int64_t(work.blocks) * 8;
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4;
  const std::int64_t first = std::int64_t(blockIdx.x) * kTiledRows + warp * 16 + g;
  const SoaView view = of_expert(work.first, std::size_t(group.expert) * work.first_stride);
  const auto row_at = [&](int i) { return RowAt{view, min(first + i * 8, work.rows - 1), units}; };
  const typename LaneWeights<F>::Source source(row_at(0), row_at(1), 0, threadIdx.x % 4);
  InputRing<kTokens> ring(shared, barriers, inputs_of_group<kTokens>(work), work.blocks);
  LaneSums<kTokens> sums = {};
  add_blocks<F, kTokens>(source, work.blocks, ring, sums);
#pragma unroll
  for (int i = 0; i < kTokens / 2; ++i) {
    const std::int64_t row = first + i % 4 / 2 * 8;
    const int token = token_of_sum(i);
    if (row < work.rows && token < group.count)
      work.out[__ldcg(work.order + group.first + token) * work.rows + row] = sums[i];
  }
}

#endif  // RIGCAST_HOPPER_CODE

// grid: tiles of rows, groups.
template <QuantFormat F, int kTokens, bool kGateUp>
__global__ void __launch_bounds__(32 * kTiledWarps, 2)
    tiled_groups_kernel([[maybe_unused]] const __grid_constant__ GroupWork work) {
#if RIGCAST_HOPPER_CODE
  extern __shared__ __align__(128) std::byte shared[];
  __shared__ __align__(8) std::uint64_t barriers[2 * TiledRing<kTokens>::kStages];
  allow_next_kernel();
  wait_for_inputs();  // which weights are read depends on them
  if (int(blockIdx.y) >= __ldcg(work.group_count)) return;
  if constexpr (kGateUp)
    multiply_group_gate_up<F, kTokens>(shared, barriers, work);
  else
    multiply_group_down<F, kTokens>(shared, barriers, work);
#else
  __trap();  // supports_tiled_experts() says no
#endif
}

template <bool kGateUp>
void launch_groups(QuantFormat format, std::int64_t tiles, const ExpertGroups& g,
                   const GroupWork& work, const Stream& stream) {
  const auto groups = unsigned(most_groups(g.tokens, g.chosen.used, g.experts, g.group_tokens));
  for_tiled_format(format, [&]<QuantFormat F>() {
    for_tiled_tokens(g.group_tokens, [&]<int kTokens>() {
      const auto kernel = tiled_groups_kernel<F, kTokens, kGateUp>;
      constexpr int kBytes = TiledRing<kTokens>::kBytes;
      RIGCAST_CUDA_CALL(
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
      launch(stream, {dim3(unsigned(tiles), groups), dim3(32 * kTiledWarps), std::size_t(kBytes)},
             Start::kEarly, kernel, work);
    });
  });
}

GroupWork work_of(const ExpertGroups& g, const DeviceMatrix& w, const __half* x) {
  if (!has_tiled_gemm() || !supports_tiled_gemm(w.format) || w.columns % kTileColumns != 0 ||
      g.group_tokens != tiled_tokens(g.group_tokens))
    throw std::invalid_argument("tiled_experts: matrices or groups that it does not take");
  GroupWork work;
  work.rows = w.rows;
  work.blocks = int(w.columns / kTileColumns);
  work.x = x;
  work.groups = g.groups;
  work.group_count = g.group_count;
  work.order = g.order;
  return work;
}

bool are_alike(const DeviceMatrix& gate, const DeviceMatrix& up) {
  return gate.format == up.format && gate.rows == up.rows && gate.columns == up.columns;
}

}  // namespace

bool supports_tiled_experts(const DeviceMatrixStack& gate, const DeviceMatrixStack& up,
                            const DeviceMatrixStack& down) {
  return has_tiled_gemm() && are_alike(gate.first, up.first) &&
         supports_tiled_gemm(gate.first.format) && supports_tiled_gemm(down.first.format) &&
         gate.first.columns % kTileColumns == 0 && gate.first.rows % kTileColumns == 0;
}

void tiled_experts_gate_up(const DeviceMatrixStack& gate, const DeviceMatrixStack& up,
                           const ExpertGroups& groups, const __half* x, __half* out,
                           const Stream& stream) {
  if (!are_alike(gate.first, up.first))
    throw std::invalid_argument("tiled_experts: gate and up must be alike");
  if (groups.tokens == 0) return;
  GroupWork work = work_of(groups, gate.first, x);
  work.first = view_of(gate.first), work.first_stride = gate.stride;
  work.second = view_of(up.first), work.second_stride = up.stride;
  work.hidden = out;
  launch_groups<true>(gate.first.format, (2 * work.rows + kTiledRows - 1) / kTiledRows, groups,
                      work, stream);
}

void tiled_experts_down(const DeviceMatrixStack& down, const ExpertGroups& groups, const __half* x,
                        float* out, const Stream& stream) {
  if (groups.tokens == 0) return;
  GroupWork work = work_of(groups, down.first, x);
  work.first = view_of(down.first), work.first_stride = down.stride;
  work.out = out;
  launch_groups<false>(down.first.format, (work.rows + kTiledRows - 1) / kTiledRows, groups, work,
                       stream);
}

}  // namespace rigcast::engine::cuda
