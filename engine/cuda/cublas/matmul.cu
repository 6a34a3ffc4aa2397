#include "engine/cuda/cublas/matmul.cuh"

#include <string>

#include "core/base/error.hpp"

namespace rigcast::engine::cuda {
namespace {

cudaDataType data_type(ValueType type) {
  switch (type) {
    case ValueType::kF32: return CUDA_R_32F;
    case ValueType::kF16: return CUDA_R_16F;
    case ValueType::kBF16: return CUDA_R_16BF;
  }
  return CUDA_R_32F;
}

}  // namespace

Matmul::Matmul(Vram& vram, const Stream& stream, std::size_t workspace_bytes)
    : workspace_(vram.allocate(workspace_bytes, "workspace of cuBLAS")), cublas_(stream) {
  cublas_.use_workspace(workspace_.as<void>(), workspace_bytes);
  cublas_.keep_sums_wide();
}

void Matmul::multiply(const Shape& shape, const Operands& at) const {
  RIGCAST_ASSERT(at.in != ValueType::kF32 && at.out != ValueType::kBF16);
  RIGCAST_ASSERT(at.out == ValueType::kF32 || (at.in == ValueType::kF16 && !at.add));
  if (shape.rows == 0 || shape.tokens == 0) return;
  const ProductType type{data_type(at.in), CUBLAS_COMPUTE_32F, data_type(at.out), bytes_of(at.in),
                         bytes_of(at.out)};
  const ProductShape product{shape.rows, shape.columns, shape.tokens};
  if (!cublas_.multiply(type, product, {at.weights, at.x, at.y, at.add}))
    throw MachineError("cuBLAS does not multiply " + std::to_string(shape.rows) + " x " +
                       std::to_string(shape.columns) + " weights with " +
                       std::to_string(shape.tokens) + " tokens here");
}

void Matmul::multiply_heads(const HeadShape& s, const __half* weights, const __half* x,
                            __half* y) const {
  if (s.heads == 0 || s.rows == 0 || s.tokens == 0) return;
  const ProductType type{CUDA_R_16F, CUBLAS_COMPUTE_32F, CUDA_R_16F, 2, 2};
  if (!cublas_.multiply_heads(type, {s.rows, s.columns, s.tokens}, {s.heads, s.x_width, s.y_width},
                              {weights, x, y}))
    throw MachineError("cuBLAS does not multiply " + std::to_string(s.heads) + " heads of " +
                       std::to_string(s.rows) + " x " + std::to_string(s.columns) +
                       " weights with " + std::to_string(s.tokens) + " tokens here");
}

// The library loads kernels with the first product that needs them, by types and hardly by shape.
void load_products(Vram& vram, std::span<const ValueType> results) {
  constexpr Matmul::Shape kShape{1024, 512, 512};
  constexpr std::size_t kWorkspaceBytes = 4 << 20;
  constexpr std::size_t kWeightBytes = std::size_t(kShape.rows * kShape.columns) * 2;
  constexpr std::size_t kBatchBytes = std::size_t(kShape.columns * kShape.tokens) * 2;
  constexpr std::size_t kResultBytes = std::size_t(kShape.rows * kShape.tokens) * 4;
  constexpr std::size_t kAllBytes = kWeightBytes + kBatchBytes + kResultBytes;
  static_assert(kWorkspaceBytes + kAllBytes <= kBlasWorkspaceBytes);

  RIGCAST_CUDA_CALL(cudaSetDevice(vram.device()));
  const Stream stream;
  const Matmul matmul(vram, stream, kWorkspaceBytes);
  const VramPiece memory = vram.allocate(kAllBytes, "workspace of cuBLAS");
  auto* const begin = memory.as<std::byte>();
  RIGCAST_CUDA_CALL(cudaMemsetAsync(begin, 0, kAllBytes, stream.get()));
  Matmul::Operands at{begin, begin + kWeightBytes};
  at.y = begin + kWeightBytes + kBatchBytes;
  for (const ValueType result : results) {
    at.out = result;
    at.add = false;
    matmul.multiply(kShape, at);
    at.add = result == ValueType::kF32;
    if (at.add) matmul.multiply(kShape, at);
  }
  stream.wait();
}

}  // namespace rigcast::engine::cuda
