#include "engine/kernels/cuda/latent/latent_rows.cuh"

#include <algorithm>
#include <stdexcept>

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/activations/quantize_device.cuh"
#include "engine/kernels/cuda/kv/rope_device.cuh"

namespace rigcast::engine::cuda {
namespace {

constexpr int kWarps = 4;

// Rotates what turns of a head or of a row, by one warp. `from` and `to` may be the same.
__device__ void turn(const LatentRows& p, int token, const float* from, float* to, int lane) {
  const int pairs = p.widths.turned / 2;
  const bool neox = p.pairs == RopePairs::kNeox;
  for (int i = lane; i < pairs; i += 32) {
    const RopeAngle angle = p.rope_cos_sin[std::int64_t(token) * pairs + i];
    const int first = neox ? i : 2 * i, second = neox ? i + pairs : 2 * i + 1;
    const float a = from[first], b = from[second];
    to[first] = a * angle.cos - b * angle.sin;
    to[second] = a * angle.sin + b * angle.cos;
  }
  __syncwarp();
}

// 32 values of a head's plain part, `at` being the first's index among all of a token.
__device__ void put_plain(const LatentQueries& to, float x, std::int64_t token, int width, int at,
                          int lane) {
  if (to.plain_fp16) to.plain_fp16[token * width + at + lane] = __float2half_rn(x);
  if (to.plain.floats) to.plain.floats[at + lane] = x;
  const QuantizedActivations& out = to.plain.quantized;
  if (!out.q) return;
  const QuantizationScale s = quantization_scale(max_over_lanes(fabsf(x), 32));
  const auto q = std::int8_t(quantized_byte(x, s.inverse));
  const int sum = sum_of(int(q), 16);
  out.q[at + lane] = q;
  if (lane == 0) out.scale[at / 32] = s.scale;
  if (lane % 16 == 0) out.sum16[at / 16 + lane / 16] = s.scale * float(sum);
}

__device__ void place_query(const LatentRows& p, int head, int token, float scale,
                            const LatentQueries& to, float* own, int lane) {
  const LatentWidths& w = p.widths;
  const float* const from = p.queries + token * p.query_stride + head * w.query();
  for (int i = 0; i < w.plain; i += 32)
    put_plain(to, __ldcg(from + i + lane) * scale, token, w.heads * w.plain, head * w.plain + i,
              lane);
  for (int i = lane; i < w.turned; i += 32) own[i] = __ldcg(from + w.plain + i);
  __syncwarp();
  turn(p, token, own, own, lane);
  put_fp16(own, scale, w.turned,
           to.queries + (std::int64_t(token) * w.heads + head) * w.row() + w.rank, lane);
}

__device__ void place_row(const LatentRows& p, const Cache& cache, int layer, int position,
                          int token, float* own, int lane) {
  const LatentWidths& w = p.widths;
  const float* const from = p.rows + token * p.row_stride;
  for (int i = lane; i < w.row(); i += 32) own[i] = __ldcg(from + i);
  __syncwarp();
  normalise(own, p.norm, p.norm_eps, w.rank, lane);
  turn(p, token, own + w.rank, own + w.rank, lane);
  std::byte* const block = cache.blocks[position / cache.block_tokens];
  put_row(
      cache.k_type, own, w.row(),
      block + cache.keys_at(layer, 0) + std::int64_t(position % cache.block_tokens) * cache.k_row,
      lane);
}

// The same for a cache that is elsewhere.
__device__ void place_raw(const LatentRows& p, int head, std::int64_t token,
                          const LatentQueries& to, int lane) {
  const LatentWidths& w = p.widths;
  if (head == w.heads) {
    for (int i = lane; i < w.row(); i += 32)
      to.rows[token * w.row() + i] = __ldcg(p.rows + token * p.row_stride + i);
    return;
  }
  const float* const from = p.queries + token * p.query_stride + head * w.query();
  for (int i = 0; i < w.plain; i += 32)
    put_plain(to, __ldcg(from + i + lane), token, w.heads * w.plain, head * w.plain + i, lane);
  __half* const tail = to.queries + (token * w.heads + head) * w.row() + w.rank;
  for (int i = lane; i < w.turned; i += 32) tail[i] = __float2half_rn(__ldcg(from + w.plain + i));
}

// One warp for each head of a token, and one for its row.
__global__ void __launch_bounds__(32 * kWarps)
    place_rows(const __grid_constant__ LatentRows p, const __grid_constant__ Cache cache, int layer,
               const __grid_constant__ StepRows step, const __grid_constant__ LatentQueries to) {
  extern __shared__ __align__(16) float of_warps[];
  allow_next_kernel();
  wait_for_inputs();
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32, token = int(blockIdx.y);
  const int head = int(blockIdx.x) * kWarps + warp;
  if (head > p.widths.heads) return;
  if (to.rows) return place_raw(p, head, token, to, lane);
  float* const own = of_warps + warp * p.widths.row();
  const int position = step.position_of(token);
  if (head < p.widths.heads)
    place_query(p, head, token, p.query_scale * p.temperature.at(position), to, own, lane);
  else
    place_row(p, cache.of_sequence(step.sequence_of(token)), layer, position, token, own, lane);
}

__global__ void __launch_bounds__(256)
    write_message(const LatentWidths w, const __half* queries, const float* rows, float* message) {
  allow_next_kernel();
  wait_for_inputs();
  const int q = w.heads * w.row(), i = int(blockIdx.x) * 256 + int(threadIdx.x);
  const std::int64_t token = blockIdx.y;
  float* const to = message + token * (q + 2 * w.row());
  if (i < q)
    to[i] = __half2float(queries[token * q + i]);
  else if (i < q + w.row())
    to[i] = rows[token * w.row() + i - q];
}

}  // namespace

void write_latent_message(const Stream& stream, const LatentWidths& widths, int tokens,
                          const __half* queries, const float* rows, float* message) {
  if (tokens < 1) return;
  const int columns = (widths.heads + 1) * widths.row();
  launch(stream, {dim3(unsigned((columns + 255) / 256), unsigned(tokens)), dim3(256)},
         Start::kEarly, write_message, widths, queries, rows, message);
}

void place_latent_rows(const Stream& stream, const LatentRows& from, const Cache& cache, int layer,
                       int tokens, const StepRows& rows, const LatentQueries& to) {
  const LatentWidths& w = from.widths;
  if (w.rank % 32 != 0 || w.plain % 32 != 0 || w.turned % 32 != 0 || w.row() > kMaxLatentRow)
    throw std::invalid_argument("place_latent_rows: widths must be 32s, and rows not too wide");
  if (tokens > 1 && (to.plain.floats || to.plain.quantized.q))
    throw std::invalid_argument("place_latent_rows: several tokens are written as F16");
  // Grids have 65,535 blocks in this direction.
  constexpr int kAtOnce = 65535;
  if (tokens > kAtOnce) throw std::invalid_argument("place_latent_rows: too many tokens");
  if (tokens < 1) return;
  const Shape shape{dim3(unsigned(w.heads / kWarps + 1), unsigned(tokens)), dim3(32 * kWarps),
                    std::size_t(kWarps * w.row()) * sizeof(float)};
  launch(stream, shape, Start::kEarly, place_rows, from, cache, layer, rows, to);
}

}  // namespace rigcast::engine::cuda
