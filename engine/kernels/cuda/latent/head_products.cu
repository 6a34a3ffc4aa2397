#include "engine/kernels/cuda/latent/head_products.cuh"

#include <stdexcept>

#include "engine/kernels/cuda/matvec/hidden_block.cuh"
#include "engine/kernels/cuda/matvec/row_stream.cuh"
#include "engine/kernels/cuda/weights/for_format.cuh"

namespace rigcast::engine::cuda {
namespace {

constexpr int kWarps = kHiddenRowsOfBlock / kHiddenRows;

template <class Lane>
using Stages = Ring<Lane, 7200>;

struct Heads {
  SoaView view;
  std::int64_t rows;
  int columns, rows_of_head, x_stride;
  Inputs x;
  HeadProducts to;
};

// The inputs of a head.
__device__ Inputs inputs_of(const Heads& h, std::int64_t head) {
  const std::int64_t at = head * h.x_stride;
  const QuantizedActivations& r = h.x.quantized;
  return {{r.q + at, r.scale + at / 32, r.sum16 + at / 16}, h.x.floats + at};
}

__device__ void write_heads(const Heads& h, std::int64_t first, float value) {
  const std::int64_t row = first + threadIdx.x;
  if (h.to.halves)
    h.to.halves[row / h.rows_of_head * h.to.stride + row % h.rows_of_head] = __float2half_rn(value);
  if (h.to.out.floats) h.to.out.floats[row] = value;
  if (h.to.out.quantized.q) quantize_hidden(value, h.to.out.quantized, h.rows);
}

// A block's 32 rows are of one head.
template <QuantFormat F>
__global__ void __launch_bounds__(32 * kWarps) multiply_head_rows(const __grid_constant__ Heads h) {
  using Lane = LaneDot<F, kHiddenRows>;
  extern __shared__ __align__(16) std::byte shared[];
  __shared__ float values[kHiddenRowsOfBlock];
  allow_next_kernel();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const std::int64_t first = std::int64_t(blockIdx.x) * kHiddenRowsOfBlock;
  const RowGroup rows{h.view, first + first_hidden_in_block(), h.rows, h.columns};
  const std::int64_t head = first / h.rows_of_head;
  stream_rows<Lane, kHiddenRows, Stages<Lane>>(
      shared + warp * Stages<Lane>::kBytes, steps_of<Lane>(h.columns), 1, [&](int) { return rows; },
      [] { wait_for_inputs(); }, [&](int) { return inputs_of(h, head); },
      [&](int, const float(&sums)[kHiddenRows]) {
        const float sum = sum_rows(sums, lane);
        if (lane % 8 == 0) values[first_hidden_in_block() + lane / 8] = sum;
      });
  __syncthreads();
  if (threadIdx.x < kHiddenRowsOfBlock) write_heads(h, first, values[threadIdx.x]);
}

}  // namespace

void multiply_heads(const HeadMatrix& m, const Inputs& x, const HeadProducts& to,
                    const Stream& stream, Start start) {
  static_assert(kHiddenRowsOfBlock == 32);
  if (m.w.columns % 32 != 0 || m.rows_of_head % kHiddenRowsOfBlock != 0 || m.rows_of_head < 1 ||
      m.w.rows % m.rows_of_head != 0)
    throw std::invalid_argument("multiply_heads: rows of a head, and columns, must be 32s");
  const int x_stride = m.x_stride > 0 ? m.x_stride : int(m.w.columns);
  if (x_stride % 32 != 0) throw std::invalid_argument("multiply_heads: inputs are 32s apart");
  const Heads h{view_of(m.w), m.w.rows, int(m.w.columns), m.rows_of_head, x_stride, x, to};
  Shape shape{dim3(unsigned(m.w.rows / kHiddenRowsOfBlock)), dim3(32 * kWarps)};
  for_format(m.w.format, [&]<QuantFormat F>() {
    shape.shared_bytes = kWarps * Stages<LaneDot<F, kHiddenRows>>::kBytes;
    RIGCAST_CUDA_CALL(cudaFuncSetAttribute(multiply_head_rows<F>,
                                           cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           int(shape.shared_bytes)));
    launch(stream, shape, start, multiply_head_rows<F>, h);
  });
}

}  // namespace rigcast::engine::cuda
