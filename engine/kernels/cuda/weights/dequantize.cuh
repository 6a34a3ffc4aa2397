#pragma once
// Weights from planes to floats: for products of many tokens, and rows of an embedding.

#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/weights/planes.cuh"

namespace rigcast::engine::cuda {

/// What weights are rounded to, to nearest, ties to even. kF32 rounds nothing: it gives the values
/// of ref::dequantize, bit for bit (NaNs stay NaNs).
enum class FloatType { kF32, kF16, kBF16 };

/// Rows [first, first + count) to out[count][columns], aligned to 16 bytes. Any format; `columns`
/// a multiple of 32.
void dequantize(const Matrix& matrix, RowRange range, FloatType type, void* out,
                const Stream& stream);

/// Rows that `ids`[count] on the device name, to out[count][columns]. Ids must be rows of `matrix`.
/// To be launched after the kernel before has ended.
void gather_rows(const Matrix& matrix, const int* ids, int count, float* out, const Stream& stream);

}  // namespace rigcast::engine::cuda
