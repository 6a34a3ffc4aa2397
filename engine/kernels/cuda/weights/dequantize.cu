#include "engine/kernels/cuda/weights/dequantize.cuh"

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/weights/decode_eight.cuh"
#include "engine/kernels/cuda/weights/for_format.cuh"

namespace rigcast::engine::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr int kRowsOfThread = 4;

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

struct Rows {
  std::int64_t columns;
  RowRange range;
  const int* ids;  // null: row i is range.first + i
};

// A thread has eight columns of four rows: with one row each, the GPU took longer to start blocks
// than they took to read and write.
template <QuantFormat F, class T>
__global__ void __launch_bounds__(kThreads) decode_rows(SoaView view, Rows rows, T* out) {
  const auto pieces = std::uint32_t(rows.columns / 8);
  const std::int64_t task = std::int64_t(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t first = task / pieces * kRowsOfThread;
  if (first >= rows.range.count) return;
  const int column = int(task % pieces) * 8;
  float w[kRowsOfThread][8];
#pragma unroll
  for (int r = 0; r < kRowsOfThread; ++r) {
    const std::int64_t i = min(first + r, rows.range.count - 1);  // no branch between loads
    const std::int64_t row = rows.ids ? rows.ids[i] : rows.range.first + i;
    decode_eight<F>(view, {row, rows.columns / 32}, column, w[r]);
  }
#pragma unroll
  for (int r = 0; r < kRowsOfThread; ++r)
    if (first + r < rows.range.count) put(out + (first + r) * rows.columns + column, w[r]);
}

template <class T>
void decode(const DeviceMatrix& m, const Rows& rows, T* out, const Stream& stream) {
  if (rows.range.count == 0) return;
  const std::int64_t fours = (rows.range.count + kRowsOfThread - 1) / kRowsOfThread;
  const std::int64_t blocks = (fours * (m.columns / 8) + kThreads - 1) / kThreads;
  for_format(m.format, [&]<QuantFormat F>() {
    launch(stream, {dim3(unsigned(blocks)), dim3(kThreads)}, Start::kAfter, decode_rows<F, T>,
           view_of(m), rows, out);
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
