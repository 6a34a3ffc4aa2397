#include "engine/kernels/cuda/kv/quantize_kv_block.cuh"

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/kv/rope_device.cuh"

namespace rigcast::engine::cuda {
namespace {

constexpr int kWarps = 8;

// One warp per row; keys and values alternate.
__global__ void __launch_bounds__(32 * kWarps)
    narrow(Cache from, int layers, const std::byte* block, Cache to, std::byte* out) {
  __shared__ __align__(16) float rows[kWarps][kMaxHeadDim];
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const std::int64_t all = std::int64_t(layers) * from.kv_heads * 2 * from.block_tokens;
  float* const row = rows[warp];
  for (std::int64_t i = std::int64_t(blockIdx.x) * kWarps + warp; i < all;
       i += std::int64_t(gridDim.x) * kWarps) {
    const int token = int(i % from.block_tokens);
    const bool values = i / from.block_tokens % 2 != 0;
    const std::int64_t of_all = i / from.block_tokens / 2;
    const int head = int(of_all % from.kv_heads), layer = int(of_all / from.kv_heads);
    const std::int64_t at = values ? from.values_at(layer, head) + token * from.v_row
                                   : from.keys_at(layer, head) + token * from.k_row;
    const auto* fp16 = reinterpret_cast<const __half*>(block + at);
    for (int k = lane; k < from.head_dim; k += 32) row[k] = __half2float(fp16[k]);
    __syncwarp();
    std::byte* const place = out + (values ? to.values_at(layer, head) + token * to.v_row
                                           : to.keys_at(layer, head) + token * to.k_row);
    put_row(values ? to.v_type : to.k_type, row, from.head_dim, place, lane);
    __syncwarp();
  }
}

}  // namespace

void quantize_kv_block(const Stream& stream, const Cache& from, int layers, const std::byte* block,
                       const Cache& to, std::byte* out) {
  // This kernel runs beside a token's kernels, which need the multiprocessors.
  constexpr unsigned kBlocks = 64;
  launch(stream, {dim3(kBlocks), dim3(32 * kWarps)}, Start::kAfter, narrow, from, layers, block, to,
         out);
}

}  // namespace rigcast::engine::cuda
