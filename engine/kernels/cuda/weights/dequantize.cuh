#pragma once
// Dequantizes weights to floats: for products of many tokens, and for rows of an embedding.

#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/weights/soa_layout.cuh"

namespace rigcast::engine::cuda {

/// The type of the result, rounded to nearest, ties to even. kF32 rounds nothing: it gives the
/// values of ref::dequantize, bit for bit (NaNs stay NaNs).
enum class FloatType { kF32, kF16, kBF16 };

/// Dequantizes rows [first, first + count) to out[count][columns], aligned to 16 bytes. Any format;
/// `columns` is a multiple of 32.
void dequantize(const DeviceMatrix& matrix, RowRange range, FloatType type, void* out,
                const Stream& stream);

/// Dequantizes the rows ids[count], in device memory, to out[count][columns]. Ids must be rows of
/// `matrix`. Must be launched after the previous kernel has ended.
void gather_rows(const DeviceMatrix& matrix, const int* ids, int count, float* out,
                 const Stream& stream);

}  // namespace rigcast::engine::cuda
