#include "engine/kernels/cuda/weights/dequantize.cuh"

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/weights/decode_eight.cuh"
#include "engine/kernels/cuda/weights/for_format.cuh"

namespace rigcast::engine::cuda {
namespace {

constexpr unsigned kThreads = 128;

__device__ void put(float* to, const float (&w)[8]) {
  reinterpret_cast<float4*>(to)[0] = make_float4(w[0], w[1], w[2], w[3]);
  reinterpret_cast<float4*>(to)[1] = make_float4(w[4], w[5], w[6], w[7]);
}

template <class T, class Round>
__device__ void put_pairs(T* to, const float (&w)[8], Round round) {
  uint4 words;
  words.x = round(w[0], w[1]), words.y = round(w[2], w[3]);
  words.z = round(w[4], w[5]), words.w = round(w[6], w[7]);
  *reinterpret_cast<uint4*>(to) = words;
}
__device__ void put(__half* to, const float (&w)[8]) {
  put_pairs(to, w, [](float a, float b) {
    const __half2 pair = __floats2half2_rn(a, b);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  });
}
__device__ void put(__nv_bfloat16* to, const float (&w)[8]) {
  put_pairs(to, w, [](float a, float b) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  });
}

// Rows in the grid's second and third dimension, 8 weights a thread in the first.
struct Rows {
  std::int64_t columns;
  RowRange range;
  const int* ids;  // null: row i is range.first + i
};

template <QuantFormat F, class T>
__global__ void decode_rows(SoaView view, Rows rows, T* out) {
  const std::int64_t i = std::int64_t(blockIdx.z) * gridDim.y + blockIdx.y;
  const int column = int(blockIdx.x * kThreads + threadIdx.x) * 8;
  if (i >= rows.range.count || column >= rows.columns) return;
  const std::int64_t row = rows.ids ? rows.ids[i] : rows.range.first + i;
  float w[8];
  decode_eight<F>(view, {row, rows.columns / 32}, column, w);
  put(out + i * rows.columns + column, w);
}

template <class T>
void decode(const DeviceMatrix& m, const Rows& rows, T* out, const Stream& stream) {
  if (rows.range.count == 0) return;
  constexpr std::int64_t kMaxRows = 32768;
  const std::int64_t y = rows.range.count < kMaxRows ? rows.range.count : kMaxRows;
  const auto over = [](std::int64_t n, std::int64_t by) { return unsigned((n + by - 1) / by); };
  const Shape shape{dim3(over(m.columns, 8 * kThreads), unsigned(y), over(rows.range.count, y)),
                    dim3(kThreads)};
  for_format(m.format, [&]<QuantFormat F>() {
    launch(stream, shape, Start::kAfter, decode_rows<F, T>, view_of(m), rows, out);
  });
}

}  // namespace

void dequantize(const DeviceMatrix& matrix, RowRange range, FloatType type, void* out,
                const Stream& stream) {
  const Rows rows{matrix.columns, range, nullptr};
  switch (type) {
    case FloatType::kF32: return decode(matrix, rows, static_cast<float*>(out), stream);
    case FloatType::kF16: return decode(matrix, rows, static_cast<__half*>(out), stream);
    case FloatType::kBF16: return decode(matrix, rows, static_cast<__nv_bfloat16*>(out), stream);
  }
}

void gather_rows(const DeviceMatrix& matrix, const int* ids, int count, float* out,
                 const Stream& stream) {
  decode(matrix, Rows{matrix.columns, {0, count}, ids}, out, stream);
}

}  // namespace rigcast::engine::cuda
