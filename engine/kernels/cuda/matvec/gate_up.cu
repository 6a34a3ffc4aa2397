#include "engine/kernels/cuda/matvec/gate_up.cuh"

#include <algorithm>
#include <stdexcept>

#include "engine/cuda/prefetch.cuh"
#include "engine/kernels/cuda/matvec/hidden_block.cuh"
#include "engine/kernels/cuda/matvec/row_stream.cuh"
#include "engine/kernels/cuda/weights/for_format.cuh"

namespace rigcast::engine::cuda {
namespace {

constexpr int kWarps = kHiddenWarps, kRows = kHiddenRows, kRowsOfBlock = kHiddenRowsOfBlock;

// Experts have few thread blocks, of few steps: all copies of a warp are under way at once.
template <class Lane, bool kExperts>
using Stages = Ring<Lane, (kExperts ? 9300 : 7200)>;

struct Projection {
  SoaView view;
  QuantFormat format;
  std::size_t stride;  // bytes from one expert to the next
  const float* bias;   // [experts][rows]; null: none
};

struct GateUp {
  Projection gate, up;
  std::int64_t rows;
  int columns;
  Inputs x;
  Outputs out;
  const int* ids;  // null: no experts
  GateFunction function;
  // Of the expert that all tokens pass: its rows follow those of the chosen ones, as if it were
  // more of them.
  SoaView shared_gate, shared_up;
  std::int64_t shared_rows;
  int chosen;                  // experts before it
  const float* weight;         // of what is not chosen; null: 1
  const float* input_weights;  // [chosen], of what each reads; null: 1
};

__device__ SoaView of_expert(SoaView v, std::size_t at) {
  const auto moved = [&](const std::uint8_t* p) { return p ? p + at : nullptr; };
  return {moved(v.codes), moved(v.high), moved(v.fields), moved(v.scales)};
}

__device__ bool is_chosen(const GateUp& g) { return g.ids && int(blockIdx.y) < g.chosen; }

// The rows of the matrices that this block multiplies, and the first of its slice of them.
struct MatrixRows {
  std::int64_t count, first;
};
__device__ MatrixRows rows_of(const GateUp& g) {
  if (!g.ids || is_chosen(g)) return {g.rows, 0};
  return {g.shared_rows, (int(blockIdx.y) - g.chosen) * g.rows};
}

// The id of this block's expert.
__device__ std::size_t expert_of(const GateUp& g) {
  return g.ids ? __float_as_uint(load_input4(g.ids + blockIdx.y)) : 0;
}

// The weights of this block's expert. They are read before the inputs are ready only where no
// expert has to be chosen. Kernels behind this one may start when all blocks know their experts:
// what the router has written is visible to them from the start (experts_down.cu).
struct Weights {
  SoaView gate, up;
};
__device__ Weights weights_of(const GateUp& g) {
  if (!g.ids) return {g.gate.view, g.up.view};
  if (!is_chosen(g)) return {g.shared_gate, g.shared_up};
  wait_for_inputs();
  allow_next_kernel();
  const std::size_t id = expert_of(g);
  if (g.gate.bias && threadIdx.x < 2) {  // write_out() reads them at the end
    const float* const bias = threadIdx.x == 0 ? g.gate.bias : g.up.bias;
    prefetch(bias + id * std::size_t(g.rows) + std::size_t(blockIdx.x) * kRowsOfBlock);
  }
  return {of_expert(g.gate.view, id * g.gate.stride), of_expert(g.up.view, id * g.up.stride)};
}

__device__ float gate_of(float x, GateFunction function) {
  return x / (1 + expf(-gate_exponent(x, function)));
}

// True if the block has no rows: the last slice of the shared expert may be narrower.
__device__ bool is_idle(const MatrixRows& rows) {
  return rows.first + std::int64_t(blockIdx.x) * kRowsOfBlock >= rows.count;
}

// The products for row lane / 8 of the warp's four rows.
struct Products {
  float gate = 0, up = 0;
};

// Adds the biases of the block's expert. Rows past the last get what is not written.
__device__ void add_biases(const GateUp& g, int lane, Products& to) {
  const std::int64_t row =
      std::int64_t(blockIdx.x) * kRowsOfBlock + first_hidden_in_block() + lane / 8;
  if (row >= g.rows) return;
  const std::size_t at = expert_of(g) * std::size_t(g.rows) + std::size_t(row);
  to.gate += g.gate.bias[at];
  to.up += g.up.bias[at];
}

__device__ float gated(const GateUp& g, Products products, int lane) {
  if (g.ids && !is_chosen(g)) {
    const float x = gate_of(products.gate, GateFunction::kSilu) * products.up;
    return g.weight ? x * load_input4(g.weight) : x;
  }
  if (g.gate.bias) add_biases(g, lane, products);
  if (g.input_weights) {  // products of x times a weight are theirs times it
    const float by = load_input4(g.input_weights + blockIdx.y);
    products = {products.gate * by, products.up * by};
  }
  const GateAndUp in = as_taken(products.gate, products.up, g.function);
  const float x = gate_of(in.gate, g.function) * in.up;
  return g.weight && !g.ids ? x * load_input4(g.weight) : x;
}

__device__ void write_out(const GateUp& g, Products products) {
  __shared__ float values[kRowsOfBlock];
  const int lane = threadIdx.x % 32;
  if (lane % 8 == 0) values[first_hidden_in_block() + lane / 8] = gated(g, products, lane);
  __syncthreads();
  if (threadIdx.x >= 32) return;
  const std::int64_t row = std::int64_t(blockIdx.x) * kRowsOfBlock + lane;
  if (g.out.floats && row < g.rows) g.out.floats[blockIdx.y * g.rows + row] = values[lane];
  if (g.out.quantized.q) quantize_hidden(values[lane], g.out.quantized, g.rows);
}

template <QuantFormat F, bool kExperts>
inline constexpr int kBlocks = blocks_that_fit<Stages<LaneDot<F, kRows>, kExperts>>(kWarps, 4);

template <QuantFormat F, bool kExperts>
__global__ void __launch_bounds__(32 * kWarps, kBlocks<F, kExperts>)
    gate_up_one_format(const __grid_constant__ GateUp g) {
  using Lane = LaneDot<F, kRows>;
  extern __shared__ __align__(16) std::byte shared[];
  if (!is_chosen(g)) allow_next_kernel();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const MatrixRows rows = rows_of(g);
  if (is_idle(rows)) return;
  const Weights weights = weights_of(g);
  const std::int64_t row = first_hidden_row(rows.count, rows.first);
  Products products;
  using Stages = cuda::Stages<Lane, kExperts>;
  stream_rows<Lane, kRows, Stages>(
      shared + warp * Stages::kBytes, steps_of<Lane>(g.columns), 2,
      [&](int i) {
        return RowGroup{i == 0 ? weights.gate : weights.up, row, rows.count, g.columns};
      },
      [] { wait_for_inputs(); }, [&](int) { return g.x; },
      [&](int i, const float(&sums)[kRows]) {
        (i == 0 ? products.gate : products.up) = sum_rows(sums, lane);
      });
  write_out(g, products);
}

__global__ void __launch_bounds__(32 * kWarps, 2)
    gate_up_two_formats(const __grid_constant__ GateUp g) {
  extern __shared__ __align__(16) std::byte shared[];
  if (!is_chosen(g)) allow_next_kernel();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const MatrixRows rows = rows_of(g);
  if (is_idle(rows)) return;
  const Weights weights = weights_of(g);
  const std::int64_t row = first_hidden_row(rows.count, rows.first);
  Products products;
  for (int i = 0; i < 2; ++i) {
    on_device_for_format(i == 0 ? g.gate.format : g.up.format, [&]<QuantFormat F>() {
      using Lane = LaneDot<F, kRows>;
      const RowGroup group{i == 0 ? weights.gate : weights.up, row, rows.count, g.columns};
      using Stages = cuda::Stages<Lane, false>;
      stream_rows<Lane, kRows, Stages>(
          shared + warp * Stages::kBytes, steps_of<Lane>(g.columns), 1, [&](int) { return group; },
          [] { wait_for_inputs(); }, [&](int) { return g.x; },
          [&](int, const float(&sums)[kRows]) {
            (i == 0 ? products.gate : products.up) = sum_rows(sums, lane);
          });
      wait_for_group<0>();
    });
    __syncthreads();  // stages of the other format overlap those of other warps
  }
  write_out(g, products);
}

template <bool kExperts>
std::size_t shared_bytes(QuantFormat format) {
  std::size_t bytes = 0;
  for_format(format, [&]<QuantFormat F>() {
    bytes = kWarps * Stages<LaneDot<F, kRows>, kExperts>::kBytes;
  });
  return bytes;
}

void launch_gate_up(const GateUp& g, int used, const Stream& stream, Start start) {
  Shape shape{dim3(unsigned((g.rows + kRowsOfBlock - 1) / kRowsOfBlock), unsigned(used)),
              dim3(32 * kWarps)};
  const auto launch_as = [&](void (*kernel)(GateUp), std::size_t bytes) {
    shape.shared_bytes = bytes;
    RIGCAST_CUDA_CALL(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           int(shape.shared_bytes)));
    launch(stream, shape, start, kernel, g);
  };
  const QuantFormat format = g.gate.format;
  if (format != g.up.format)
    return launch_as(gate_up_two_formats,
                     std::max(shared_bytes<false>(format), shared_bytes<false>(g.up.format)));
  for_format(format, [&]<QuantFormat F>() {
    if (g.ids)
      launch_as(gate_up_one_format<F, true>, shared_bytes<true>(format));
    else
      launch_as(gate_up_one_format<F, false>, shared_bytes<false>(format));
  });
}

GateUp checked(const DeviceMatrixStack& gate, const DeviceMatrixStack& up, const Inputs& x,
               const Outputs& out, GateFunction function) {
  const DeviceMatrix &a = gate.first, &b = up.first;
  if (a.rows != b.rows || a.columns != b.columns || a.columns % 32 != 0)
    throw std::invalid_argument("gate_up: matrices must be alike, of a multiple of 32 columns");
  if (!gate.bias != !up.bias) throw std::invalid_argument("gate_up: both have a bias, or none");
  if (out.quantized.q && a.rows % 32 != 0)
    throw std::invalid_argument("gate_up: rounded rows must be a multiple of 32");
  return {{view_of(a), a.format, gate.stride, gate.bias},
          {view_of(b), b.format, up.stride, up.bias},
          a.rows,
          int(a.columns),
          x,
          out,
          nullptr,
          function,
          {},
          {},
          0,
          0,
          nullptr,
          nullptr};
}

}  // namespace

void gate_up(const DeviceMatrix& gate, const DeviceMatrix& up, const Inputs& x, const Outputs& out,
             const Stream& stream, Start start, GateFunction function, const float* weight) {
  GateUp g = checked({gate, 0}, {up, 0}, x, out, function);
  g.weight = weight;
  launch_gate_up(g, 1, stream, start);
}

bool joins_gate_up(const SharedExpert& shared, const DeviceMatrixStack& gate,
                   const DeviceMatrixStack& up) {
  return shared.gate.format == gate.first.format && shared.up.format == up.first.format &&
         gate.first.rows % kRowsOfBlock == 0 && shared.gate.rows % kRowsOfBlock == 0;
}

void experts_gate_up(const DeviceMatrixStack& gate, const DeviceMatrixStack& up,
                     const ChosenExperts& experts, const Inputs& x, const Outputs& out,
                     const Stream& stream, Start start, GateFunction function,
                     const SharedExpert& shared, const float* input_weights) {
  GateUp g = checked(gate, up, x, out, function);
  g.ids = experts.ids;
  g.chosen = experts.used;
  g.input_weights = input_weights;
  int blocks = experts.used;
  if (shared) {
    if (!joins_gate_up(shared, gate, up) || shared.gate.columns != gate.first.columns ||
        shared.up.rows != shared.gate.rows || shared.up.columns != shared.gate.columns)
      throw std::invalid_argument("gate_up: the shared expert does not fit beside the others");
    g.shared_gate = view_of(shared.gate);
    g.shared_up = view_of(shared.up);
    g.shared_rows = shared.gate.rows;
    g.weight = shared.weight;
    blocks += int((g.shared_rows + g.rows - 1) / g.rows);
  }
  launch_gate_up(g, blocks, stream, start);
}

}  // namespace rigcast::engine::cuda
