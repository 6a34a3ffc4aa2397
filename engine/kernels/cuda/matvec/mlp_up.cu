#include "engine/kernels/cuda/matvec/mlp_up.cuh"

#include <stdexcept>

#include "engine/kernels/cuda/matvec/hidden_block.cuh"
#include "engine/kernels/cuda/matvec/row_stream.cuh"
#include "engine/kernels/cuda/weights/for_format.cuh"

namespace rigcast::engine::cuda {
namespace {

template <class Lane>
using Stages = Ring<Lane, 7200>;

struct MlpUp {
  SoaView view;
  std::int64_t rows;
  int columns;
  Inputs x;
  Outputs out;
  const float* bias;
  MlpFunction function;
  const float* times;
};

template <QuantFormat F>
inline constexpr int kBlocks = blocks_that_fit<Stages<LaneDot<F, kHiddenRows>>>(kHiddenWarps, 4);

// `sum`: the product of row lane / 8 of the warp's four rows.
__device__ void write_out(const MlpUp& m, float sum) {
  __shared__ float values[kHiddenRowsOfBlock];
  const int lane = threadIdx.x % 32;
  if (lane % 8 == 0) {
    const int in_block = first_hidden_in_block() + lane / 8;
    const std::int64_t row = std::int64_t(blockIdx.x) * kHiddenRowsOfBlock + in_block;
    if (m.bias && row < m.rows) sum += m.bias[row];
    const float by = m.times && row < m.rows ? load_input4(m.times + row) : 1;
    values[in_block] = m.function(sum) * by;
  }
  __syncthreads();
  if (threadIdx.x >= 32) return;
  const std::int64_t row = std::int64_t(blockIdx.x) * kHiddenRowsOfBlock + lane;
  if (m.out.floats && row < m.rows) m.out.floats[row] = values[lane];
  if (m.out.quantized.q) quantize_hidden(values[lane], m.out.quantized, m.rows);
}

template <QuantFormat F>
__global__ void __launch_bounds__(32 * kHiddenWarps, kBlocks<F>)
    mlp_up_kernel(const __grid_constant__ MlpUp m) {
  using Lane = LaneDot<F, kHiddenRows>;
  extern __shared__ __align__(16) std::byte shared[];
  allow_next_kernel();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const RowGroup rows{m.view, first_hidden_row(m.rows), m.rows, m.columns};
  float sum = 0;
  stream_rows<Lane, kHiddenRows, Stages<Lane>>(
      shared + warp * Stages<Lane>::kBytes, steps_of<Lane>(m.columns), 1, [&](int) { return rows; },
      [] { wait_for_inputs(); }, [&](int) { return m.x; },
      [&](int, const float(&sums)[kHiddenRows]) { sum = sum_rows(sums, lane); });
  write_out(m, sum);
}

}  // namespace

void mlp_up(const DeviceMatrix& up, const float* bias, const Inputs& x, const Outputs& out,
            const MlpFunction& function, const Stream& stream, Start start, const float* times) {
  if (up.columns % 32 != 0) throw std::invalid_argument("mlp_up: columns are a multiple of 32");
  if (out.quantized.q && up.rows % 32 != 0)
    throw std::invalid_argument("mlp_up: rounded rows must be a multiple of 32");
  const MlpUp m{view_of(up), up.rows, int(up.columns), x, out, bias, function, times};
  Shape shape{dim3(unsigned((up.rows + kHiddenRowsOfBlock - 1) / kHiddenRowsOfBlock)),
              dim3(32 * kHiddenWarps)};
  for_format(up.format, [&]<QuantFormat F>() {
    shape.shared_bytes = kHiddenWarps * Stages<LaneDot<F, kHiddenRows>>::kBytes;
    RIGCAST_CUDA_CALL(cudaFuncSetAttribute(
        mlp_up_kernel<F>, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shape.shared_bytes)));
    launch(stream, shape, start, mlp_up_kernel<F>, m);
  });
}

}  // namespace rigcast::engine::cuda
