#include "engine/kernels/cuda/matvec/experts_down.cuh"

#include <stdexcept>

#include "engine/kernels/cuda/matvec/row_stream.cuh"
#include "engine/kernels/cuda/weights/for_format.cuh"

namespace rigcast::engine::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kRows = 2;

template <class Lane>
using Stages = Ring<Lane, 10400>;

struct Down {
  SoaView view;
  std::size_t stride;
  const float* bias;
  std::int64_t rows;
  int columns;
  ChosenExperts experts;
  Inputs x;
  ExpertsSum sum;
  SoaView shared;
  int shared_columns;  // 0: there is no shared expert
};

__device__ SoaView of_expert(SoaView v, std::size_t at) {
  const auto moved = [&](const std::uint8_t* p) { return p ? p + at : nullptr; };
  return {moved(v.codes), moved(v.high), moved(v.fields), moved(v.scales)};
}

// The inputs of expert i; those of the shared expert follow the last.
__device__ Inputs inputs_of(const Down& d, int i) {
  const std::int64_t at = std::int64_t(i) * d.columns;
  const QuantizedActivations& r = d.x.quantized;
  return {{r.q + at, r.scale + at / 32, r.sum16 + at / 16}, d.x.floats + at};
}

// One warp goes through the rows of all experts, so that no sum crosses warps.
template <QuantFormat F>
__global__ void __launch_bounds__(32 * kWarps, 4) down_experts(const __grid_constant__ Down d) {
  using Lane = LaneDot<F, kRows>;
  extern __shared__ __align__(16) std::byte shared[];
  allow_next_kernel();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const std::int64_t row = (std::int64_t(blockIdx.x) * kWarps + warp) * kRows;
  if (row >= d.rows) return;
  float all[kRows] = {};
  // All tokens pass the shared expert: its weights are read before the others are chosen.
  if (d.shared_columns > 0)
    stream_rows<Lane, kRows, Stages<Lane>>(
        shared + warp * Stages<Lane>::kBytes, steps_of<Lane>(d.shared_columns), 1,
        [&](int) {
          return RowGroup{d.shared, row, d.rows, d.shared_columns};
        },
        [] { wait_for_inputs(); }, [&](int) { return inputs_of(d, d.experts.used); },
        [&](int, const float(&sums)[kRows]) {
          for (int r = 0; r < kRows; ++r) all[r] = sums[r];
        });
  // Lane i holds the id and weight of expert i, so that later groups need not load them again.
  const bool mine = lane < d.experts.used;
  const int id_here = mine ? __float_as_int(load_input4(d.experts.ids + lane)) : 0;
  const float weight_here = !mine               ? 0
                            : d.experts.weights ? load_input4(d.experts.weights + lane)
                                                : 1;
  if (d.bias && mine)
    for (int r = 0; r < kRows; ++r)
      all[r] += weight_here * d.bias[id_here * d.rows + min(row + r, d.rows - 1)];
  stream_rows<Lane, kRows, Stages<Lane>>(
      shared + warp * Stages<Lane>::kBytes, steps_of<Lane>(d.columns), d.experts.used,
      [&](int i) {
        const auto id = std::size_t(__shfl_sync(~0u, id_here, i));
        return RowGroup{of_expert(d.view, id * d.stride), row, d.rows, d.columns};
      },
      [] { wait_for_inputs(); }, [&](int i) { return inputs_of(d, i); },
      [&](int i, const float(&sums)[kRows]) {
        const float weight = __shfl_sync(~0u, weight_here, i);
        for (int r = 0; r < kRows; ++r) all[r] = fmaf(weight, sums[r], all[r]);
      });
  float sum = sum_rows(all, lane);
  const std::int64_t at = row + lane / (32 / kRows);
  if (lane % (32 / kRows) != 0 || at >= d.rows) return;
  if (d.sum.add) sum += load_input4(d.sum.add + at);
  d.sum.out[at] = sum;
}

}  // namespace

void experts_down(const DeviceMatrixStack& down, const ChosenExperts& experts, const Inputs& x,
                  const ExpertsSum& sum, const Stream& stream, Start start,
                  const DeviceMatrix& shared) {
  const DeviceMatrix& m = down.first;
  if (m.columns % 32 != 0 || experts.used > kMaxExpertsPerToken)
    throw std::invalid_argument("experts_down: columns must be 32s, and experts at most 32");
  if (shared && (shared.format != m.format || shared.rows != m.rows || shared.columns % 32 != 0))
    throw std::invalid_argument("experts_down: the shared expert has another shape or format");
  const Down d{view_of(m),
               down.stride,
               down.bias,
               m.rows,
               int(m.columns),
               experts,
               x,
               sum,
               shared ? view_of(shared) : SoaView{},
               shared ? int(shared.columns) : 0};
  constexpr int kRowsOfBlock = kWarps * kRows;
  Shape shape{dim3(unsigned((m.rows + kRowsOfBlock - 1) / kRowsOfBlock)), dim3(32 * kWarps)};
  for_format(m.format, [&]<QuantFormat F>() {
    shape.shared_bytes = kWarps * Stages<LaneDot<F, kRows>>::kBytes;
    RIGCAST_CUDA_CALL(cudaFuncSetAttribute(
        down_experts<F>, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shape.shared_bytes)));
    launch(stream, shape, start, down_experts<F>, d);
  });
}

}  // namespace rigcast::engine::cuda
