#include "engine/kernels/cuda/kv/dequantize_kv.cuh"

#include <cuda_fp16.h>

#include <algorithm>

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/kv/row_pieces.cuh"

namespace rigcast::engine::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kPiece = 8;  // values that a thread converts to 16 bytes of F16

// The address of a row of keys or values of layer 0.
__device__ std::byte* row_of(const Cache& c, int head, int token, bool values) {
  const int block = token / c.block_tokens, row = token - block * c.block_tokens;
  return c.blocks[block] +
         (values ? c.values_at(0, head) + row * c.v_row : c.keys_at(0, head) + row * c.k_row);
}

// Neighbouring threads convert neighbouring pieces of a row, then the next row, which follows in
// memory.
__device__ void dequantize_tokens(const Cache& from, const TokenRange& tokens, const Cache& to) {
  const int head = int(blockIdx.y) / 2, pieces = from.head_dim / kPiece;
  const bool values = blockIdx.y % 2 != 0;
  const QuantFormat type = values ? from.v_type : from.k_type;
  const int all = (tokens.end - tokens.first) * pieces;
#pragma unroll 4
  for (int i = int(blockIdx.x) * kThreads + int(threadIdx.x); i < all;
       i += int(gridDim.x) * kThreads) {
    const int token = tokens.first + i / pieces, piece = i % pieces;
    const std::byte* row = row_of(from, head, token, values);
    reinterpret_cast<uint4*>(row_of(to, head, token, values))[piece] =
        piece_of_row(type, row, piece);
  }
}

// grid: several blocks for each head's keys and values.
__global__ void __launch_bounds__(kThreads) widen_range(Cache from, TokenRange tokens, Cache to) {
  allow_next_kernel();
  wait_for_inputs();
  dequantize_tokens(from, tokens, to);
}

// The number of blocks is fixed, several per multiprocessor; each loops over the rows.
dim3 grid_for(const Cache& cache) {
  constexpr unsigned kBlocks = 1024;
  const unsigned heads = 2 * unsigned(cache.kv_heads);
  return dim3(std::max(1u, kBlocks / heads), heads);
}

}  // namespace

void dequantize_kv_blocks(const Stream& stream, const Cache& from, const TokenRange& tokens,
                          const Cache& to) {
  launch(stream, {grid_for(from), dim3(kThreads)}, Start::kAfter, widen_range, from, tokens, to);
}

}  // namespace rigcast::engine::cuda
