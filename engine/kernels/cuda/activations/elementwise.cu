#include "engine/kernels/cuda/activations/elementwise.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.hpp"
#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/activations/tile_order.hpp"

namespace rigcast::engine::cuda {
namespace {

constexpr int kWarp = 32;
constexpr unsigned kThreads = 256;
constexpr unsigned kMaxNormThreads = 512;

// N neighbouring values of a row, which one thread loads and stores at once.
template <int N>
struct Pack {
  float v[N];
};

template <class T, int N>
struct alignas(sizeof(T) * N) Stored {
  T v[N];
};

__device__ __forceinline__ float dequantized(float x) { return x; }
__device__ __forceinline__ float dequantized(__half x) { return __half2float(x); }
__device__ __forceinline__ float dequantized(__nv_bfloat16 x) { return __bfloat162float(x); }

__device__ __forceinline__ void narrow(float x, float& out) { out = x; }
__device__ __forceinline__ void narrow(float x, __half& out) {
  constexpr float kMax = 65504.0f;  // comparisons leave NaN as it is
  out = __float2half_rn(x > kMax ? kMax : x < -kMax ? -kMax : x);
}
__device__ __forceinline__ void narrow(float x, __nv_bfloat16& out) {
  out = __float2bfloat16_rn(x);
}

template <class T, int N>
__device__ __forceinline__ Pack<N> load_as(const void* row, int i) {
  const auto stored = static_cast<const Stored<T, N>*>(row)[i];
  Pack<N> pack;
#pragma unroll
  for (int k = 0; k < N; ++k) pack.v[k] = dequantized(stored.v[k]);
  return pack;
}

template <class T, int N>
__device__ __forceinline__ void store_as(void* row, int i, const Pack<N>& pack) {
  Stored<T, N> stored;
#pragma unroll
  for (int k = 0; k < N; ++k) narrow(pack.v[k], stored.v[k]);
  static_cast<Stored<T, N>*>(row)[i] = stored;
}

template <int N>
__device__ __forceinline__ Pack<N> load(const void* row, ValueType type, int i) {
  if (type == ValueType::kF32) return load_as<float, N>(row, i);
  if (type == ValueType::kF16) return load_as<__half, N>(row, i);
  return load_as<__nv_bfloat16, N>(row, i);
}

template <int N>
__device__ __forceinline__ void store(void* row, ValueType type, int i, const Pack<N>& pack) {
  if (type == ValueType::kF32) return store_as<float, N>(row, i, pack);
  if (type == ValueType::kF16) return store_as<__half, N>(row, i, pack);
  store_as<__nv_bfloat16, N>(row, i, pack);
}

__device__ __forceinline__ const void* row_of(const ConstRows& rows, std::int64_t token) {
  const std::int64_t bytes = rows.type == ValueType::kF32 ? 4 : 2;
  return static_cast<const std::byte*>(rows.data) + token * rows.stride * bytes;
}

__device__ __forceinline__ void* row_of(const Rows& rows, std::int64_t token) {
  const std::int64_t bytes = rows.type == ValueType::kF32 ? 4 : 2;
  return static_cast<std::byte*>(rows.data) + token * rows.stride * bytes;
}

// The N values x + add + bias at one position.
template <int N>
__device__ __forceinline__ Pack<N> added(const void* x, const void* add, const Addition& addition,
                                         int i) {
  Pack<N> sum = load_as<float, N>(x, i);
  if (add) {
    const Pack<N> more = load<N>(add, addition.add.type, i);
#pragma unroll
    for (int k = 0; k < N; ++k) sum.v[k] += more.v[k];
  }
  if (addition.bias) {
    const Pack<N> bias = load_as<float, N>(addition.bias, i);
#pragma unroll
    for (int k = 0; k < N; ++k) sum.v[k] += bias.v[k];
  }
  return sum;
}

template <int N>
__global__ void add_rows_kernel(int packs, Rows x, Addition addition) {
  wait_for_inputs();
  allow_next_kernel();
  const int i = int(blockIdx.x * kThreads + threadIdx.x);
  if (i >= packs) return;
  void* const row = row_of(x, blockIdx.y);
  const void* const add = addition.add.data ? row_of(addition.add, blockIdx.y) : nullptr;
  store_as<float, N>(row, i, added<N>(row, add, addition, i));
}

// The sum over all threads of the block, in a fixed order: every thread gets the same value.
__device__ float block_sum(float mine) {
  __shared__ float of_warp[kMaxNormThreads / kWarp];
  for (int step = kWarp / 2; step > 0; step /= 2) mine += __shfl_xor_sync(~0u, mine, step);
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = mine;
  __syncthreads();
  float sum = 0;
  for (unsigned w = 0; w < blockDim.x / kWarp; ++w) sum += of_warp[w];
  return sum;
}

// The mean over all threads' sums of the values in a row; block_sum() may be called again.
__device__ float block_mean(float mine, int width) {
  const float mean = block_sum(mine) / float(width);
  __syncthreads();
  return mean;
}

template <int N>
__device__ __forceinline__ void add_squares(const Pack<N>& value, float mean, float& to) {
#pragma unroll
  for (int k = 0; k < N; ++k) to += (value.v[k] - mean) * (value.v[k] - mean);
}

// As rms_norm_kernel(), of norms that subtract the mean, in a pass more.
template <int N>
__global__ void layer_norm_kernel(Batch batch, Rows x, Addition addition, Norm norm, Rows out) {
  wait_for_inputs();
  allow_next_kernel();
  const int packs = batch.width / N;
  const int begin = int(threadIdx.x), step = int(blockDim.x);
  void* const row = row_of(x, blockIdx.x);
  const void* const add = addition.add.data ? row_of(addition.add, blockIdx.x) : nullptr;
  const bool changes = add || addition.bias;
  float sum = 0, squares = 0;
  for (int i = begin; i < packs; i += step) {
    const Pack<N> value = added<N>(row, add, addition, i);
    if (changes) store_as<float, N>(row, i, value);
#pragma unroll
    for (int k = 0; k < N; ++k) sum += value.v[k];
  }
  const float mean = block_mean(sum, batch.width);
  for (int i = begin; i < packs; i += step) add_squares(load_as<float, N>(row, i), mean, squares);
  const float scale = 1 / sqrtf(block_sum(squares) / float(batch.width) + norm.eps);
  void* const normed = row_of(out, blockIdx.x);
  for (int i = begin; i < packs; i += step) {
    Pack<N> value = load_as<float, N>(row, i);
    const Pack<N> weight = load_as<float, N>(norm.weight, i);
    Pack<N> bias{};
    if (norm.bias) bias = load_as<float, N>(norm.bias, i);
#pragma unroll
    for (int k = 0; k < N; ++k) value.v[k] = (value.v[k] - mean) * scale * weight.v[k] + bias.v[k];
    store<N>(normed, out.type, i, value);
  }
}

// In the second pass a thread reads what it read or wrote in the first: from the cache.
template <int N>
__global__ void rms_norm_kernel(Batch batch, Rows x, Addition addition, Norm norm, Rows out) {
  wait_for_inputs();
  allow_next_kernel();
  const int packs = batch.width / N;
  const int begin = int(threadIdx.x), step = int(blockDim.x);
  void* const row = row_of(x, blockIdx.x);
  const void* const add = addition.add.data ? row_of(addition.add, blockIdx.x) : nullptr;
  const bool changes = add || addition.bias;
  float squares = 0;
  for (int i = begin; i < packs; i += step) {
    const Pack<N> value = added<N>(row, add, addition, i);
    if (changes) store_as<float, N>(row, i, value);
#pragma unroll
    for (int k = 0; k < N; ++k) squares += value.v[k] * value.v[k];
  }
  const float scale = 1 / sqrtf(block_sum(squares) / float(batch.width) + norm.eps);
  void* const normed = row_of(out, blockIdx.x);
  for (int i = begin; i < packs; i += step) {
    Pack<N> value = load_as<float, N>(row, i);
    const Pack<N> weight = load_as<float, N>(norm.weight, i);
#pragma unroll
    for (int k = 0; k < N; ++k) value.v[k] = value.v[k] * scale * weight.v[k];
    store<N>(normed, out.type, i, value);
  }
}

// The values of four columns are in two places: those of even and of odd columns.
__device__ __forceinline__ void store_tiled(const Pack<4>& pack, int width, int i, int token,
                                            int tiled, __half* out) {
#pragma unroll
  for (int odd = 0; odd < 2; ++odd) {
    Stored<__half, 2> pair;
    narrow(pack.v[odd], pair.v[0]);
    narrow(pack.v[odd + 2], pair.v[1]);
    *reinterpret_cast<Stored<__half, 2>*>(out + tiled_index(width, 4 * i + odd, token, tiled)) =
        pair;
  }
}

// Weights are read before the inputs are there; most rows stay in registers. `kMean`: of a norm
// that subtracts it.
template <bool kMean>
__global__ void __launch_bounds__(kMaxNormThreads)
    norm_tiled_kernel(int packs, ConstRows x, Norm norm, int tiled, __half* out) {
  constexpr int kHeld = 3;  // of a thread: rows of up to 6,144 values
  const int begin = int(threadIdx.x), step = int(blockDim.x);
  Pack<4> weight[kHeld], value[kHeld];
#pragma unroll
  for (int n = 0; n < kHeld; ++n)
    if (begin + n * step < packs) weight[n] = load_as<float, 4>(norm.weight, begin + n * step);
  allow_next_kernel();
  wait_for_inputs();
  const void* const row = row_of(x, blockIdx.x);
  float squares = 0, sum = 0, mean = 0;
  const auto add = [&](const Pack<4>& pack) {
    if constexpr (kMean) {
      add_squares(pack, mean, squares);
    } else {
#pragma unroll
      for (int k = 0; k < 4; ++k) squares += pack.v[k] * pack.v[k];
    }
  };
#pragma unroll
  for (int n = 0; n < kHeld; ++n)
    if (begin + n * step < packs) value[n] = load_as<float, 4>(row, begin + n * step);
  if constexpr (kMean) {
    const auto add_all = [&](const Pack<4>& pack) {
#pragma unroll
      for (int k = 0; k < 4; ++k) sum += pack.v[k];
    };
#pragma unroll
    for (int n = 0; n < kHeld; ++n)
      if (begin + n * step < packs) add_all(value[n]);
    for (int i = begin + kHeld * step; i < packs; i += step) add_all(load_as<float, 4>(row, i));
    mean = block_mean(sum, packs * 4);
  }
#pragma unroll
  for (int n = 0; n < kHeld; ++n)
    if (begin + n * step < packs) add(value[n]);
  for (int i = begin + kHeld * step; i < packs; i += step) add(load_as<float, 4>(row, i));
  const float scale = 1 / sqrtf(block_sum(squares) / float(packs * 4) + norm.eps);
  const auto write = [&](Pack<4> pack, const Pack<4>& by, int i) {
    Pack<4> bias{};
    if (kMean && norm.bias) bias = load_as<float, 4>(norm.bias, i);
#pragma unroll
    for (int k = 0; k < 4; ++k)
      pack.v[k] =
          kMean ? (pack.v[k] - mean) * scale * by.v[k] + bias.v[k] : pack.v[k] * scale * by.v[k];
    store_tiled(pack, 4 * packs, i, int(blockIdx.x), tiled, out);
  };
#pragma unroll
  for (int n = 0; n < kHeld; ++n)
    if (begin + n * step < packs) write(value[n], weight[n], begin + n * step);
  for (int i = begin + kHeld * step; i < packs; i += step)
    write(load_as<float, 4>(row, i), load_as<float, 4>(norm.weight, i), i);
}

__device__ __forceinline__ float gate_of(float x, GateFunction function) {
  return x / (1 + __expf(-gate_exponent(x, function)));
}

template <class In, int N>
__global__ void gate_times_kernel(int packs, ConstRows gate, ConstRows up, Rows out,
                                  GateFunction function) {
  wait_for_inputs();
  allow_next_kernel();
  const int i = int(blockIdx.x * kThreads + threadIdx.x);
  if (i >= packs) return;
  const Pack<N> g = load_as<In, N>(row_of(gate, blockIdx.y), i);
  Pack<N> value = load_as<In, N>(row_of(up, blockIdx.y), i);
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const GateAndUp in = as_taken(g.v[k], value.v[k], function);
    value.v[k] = in.up * gate_of(in.gate, function);
  }
  store_as<__half, N>(row_of(out, blockIdx.y), i, value);
}

__global__ void __launch_bounds__(kThreads)
    scale_kernel(float* x, std::int64_t count, float factor) {
  wait_for_inputs();
  allow_next_kernel();
  const std::int64_t i = std::int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) x[i] *= factor;
}

// One block for each row.
__global__ void __launch_bounds__(kMaxNormThreads) add_branch_kernel(int width, BranchSum sum) {
  wait_for_inputs();
  allow_next_kernel();
  const std::int64_t row = std::int64_t(blockIdx.x) * width;
  const float* const branch = sum.branch + row;
  const int begin = int(threadIdx.x), step = int(blockDim.x);
  float scale = 1;
  if (sum.norm.weight) {
    float squares = 0;
    for (int i = begin; i < width; i += step) squares += branch[i] * branch[i];
    scale = 1 / sqrtf(block_sum(squares) / float(width) + sum.norm.eps);
  }
  for (int i = begin; i < width; i += step) {
    const float weight = sum.norm.weight ? sum.norm.weight[i] : 1;
    const float all = sum.hidden[row + i] + sum.factor * (branch[i] * scale * weight);
    sum.hidden[row + i] = sum.scale == 1 ? all : all * sum.scale;
  }
}

__global__ void __launch_bounds__(kThreads)
    bound_logits_kernel(float* logits, std::int64_t count, LogitRange range) {
  wait_for_inputs();
  allow_next_kernel();
  const std::int64_t i = std::int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  const float logit = logits[i] * range.factor;
  logits[i] = range.cap > 0 ? range.cap * tanhf(logit / range.cap) : logit;
}

__global__ void set_position_kernel(std::int32_t* position, std::int32_t value) {
  *position = value;
}

__global__ void advance_kernel(std::int32_t* position, int tokens) {
  wait_for_inputs();
  allow_next_kernel();
  *position += tokens;
}

// True if all rows can be loaded and stored 4 values at a time.
bool starts_pack(const void* data, std::size_t value_bytes, std::int64_t stride) {
  return reinterpret_cast<std::uintptr_t>(data) % (4 * value_bytes) == 0 && stride % 4 == 0;
}
bool by_four(const ConstRows& rows) {
  return starts_pack(rows.data, bytes_of(rows.type), rows.stride);
}
bool by_four(const float* vector) { return starts_pack(vector, sizeof(float), 0); }
bool by_four(const Batch& batch) { return batch.width % 4 == 0; }
bool by_four(const Addition& a) { return by_four(a.add) && by_four(a.bias); }

void check(const Addition& a) { RIGCAST_ASSERT(!a.add || a.add.type != ValueType::kBF16); }

constexpr int kMaxRows = 65535;  // the limit of a grid's second dimension

dim3 grid_of(const Batch& batch, int packs) {
  RIGCAST_ASSERT(batch.tokens <= kMaxRows);
  return {(unsigned(packs) + kThreads - 1) / kThreads, unsigned(batch.tokens)};
}

dim3 blocks_of(std::int64_t count) { return {unsigned((count + kThreads - 1) / kThreads)}; }

unsigned norm_threads(int packs) {
  const unsigned whole_warps = (unsigned(packs) + kWarp - 1) / kWarp * kWarp;
  return std::clamp<unsigned>(whole_warps, kWarp, kMaxNormThreads);
}

__global__ void __launch_bounds__(kThreads)
    halves_of(const float* from, std::int64_t count, __half* to) {
  allow_next_kernel();
  wait_for_inputs();
  const std::int64_t i = std::int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) narrow(from[i], to[i]);
}

}  // namespace

void add_rows(const Stream& stream, const Batch& batch, const Rows& x, const Addition& addition) {
  RIGCAST_ASSERT(x.type == ValueType::kF32);
  check(addition);
  if (batch.tokens == 0 || batch.width == 0) return;
  const bool four = by_four(batch) && by_four(x) && by_four(addition);
  const int packs = batch.width / (four ? 4 : 1);
  launch(stream, {grid_of(batch, packs), dim3(kThreads)}, Start::kEarly,
         four ? add_rows_kernel<4> : add_rows_kernel<1>, packs, x, addition);
}

void rms_norm(const Stream& stream, const Batch& batch, const Rows& x, const Addition& addition,
              const Norm& norm, const Rows& out) {
  RIGCAST_ASSERT(x.type == ValueType::kF32 && norm.weight);
  check(addition);
  if (batch.tokens == 0 || batch.width == 0) return;
  const bool four = by_four(batch) && by_four(x) && by_four(addition) && by_four(norm.weight) &&
                    by_four(norm.bias) && by_four(out);
  const unsigned threads = norm_threads(batch.width / (four ? 4 : 1));
  auto* const kernel = norm.subtracts_mean ? (four ? layer_norm_kernel<4> : layer_norm_kernel<1>)
                                           : (four ? rms_norm_kernel<4> : rms_norm_kernel<1>);
  launch(stream, {dim3(unsigned(batch.tokens)), dim3(threads)}, Start::kEarly, kernel, batch, x,
         addition, norm, out);
}

void rms_norm_tiled(const Stream& stream, const Batch& batch, const ConstRows& x, const Norm& norm,
                    __half* out) {
  RIGCAST_ASSERT(x.type == ValueType::kF32 && norm.weight && by_four(x) && by_four(norm.weight) &&
                 by_four(norm.bias));
  RIGCAST_ASSERT(batch.width % kTileColumns == 0 && batch.tokens <= kMaxTiledTokens);
  if (batch.tokens == 0 || batch.width == 0) return;
  const int packs = batch.width / 4;
  launch(stream, {dim3(unsigned(batch.tokens)), dim3(norm_threads(packs))}, Start::kEarly,
         norm.subtracts_mean ? norm_tiled_kernel<true> : norm_tiled_kernel<false>, packs, x, norm,
         tiled_tokens(batch.tokens), out);
}

void gate_times(const Stream& stream, const Batch& batch, const ConstRows& gate,
                const ConstRows& up, const Rows& out, GateFunction function) {
  const bool half = gate.type == ValueType::kF16;
  RIGCAST_ASSERT(gate.type == up.type && (half || gate.type == ValueType::kF32));
  RIGCAST_ASSERT(out.type == ValueType::kF16);
  if (batch.tokens == 0 || batch.width == 0) return;
  const bool four = by_four(batch) && by_four(gate) && by_four(up) && by_four(out);
  const int packs = batch.width / (four ? 4 : 1);
  auto* kernel = half ? (four ? gate_times_kernel<__half, 4> : gate_times_kernel<__half, 1>)
                      : (four ? gate_times_kernel<float, 4> : gate_times_kernel<float, 1>);
  launch(stream, {grid_of(batch, packs), dim3(kThreads)}, Start::kEarly, kernel, packs, gate, up,
         out, function);
}

void scale(const Stream& stream, float* x, std::int64_t count, float factor) {
  if (count == 0) return;
  launch(stream, {blocks_of(count), dim3(kThreads)}, Start::kEarly, scale_kernel, x, count, factor);
}

void add_branch(const Stream& stream, const Batch& batch, const BranchSum& sum) {
  if (batch.tokens == 0 || batch.width == 0) return;
  launch(stream, {dim3(unsigned(batch.tokens)), dim3(norm_threads(batch.width))}, Start::kEarly,
         add_branch_kernel, batch.width, sum);
}

void bound_logits(const Stream& stream, float* logits, std::int64_t count,
                  const LogitRange& range) {
  if (count == 0 || !range.changes()) return;
  launch(stream, {blocks_of(count), dim3(kThreads)}, Start::kEarly, bound_logits_kernel, logits,
         count, range);
}

void to_fp16(const Stream& stream, const float* from, std::int64_t count, __half* to) {
  launch(stream, {blocks_of(count), dim3(kThreads)}, Start::kEarly, halves_of, from, count, to);
}

void set_position(const Stream& stream, std::int32_t* position, std::int32_t value) {
  launch(stream, {dim3(1), dim3(1)}, Start::kAfter, set_position_kernel, position, value);
}

void advance(const Stream& stream, std::int32_t* position, int tokens) {
  launch(stream, {dim3(1), dim3(1)}, Start::kEarly, advance_kernel, position, tokens);
}

}  // namespace rigcast::engine::cuda
