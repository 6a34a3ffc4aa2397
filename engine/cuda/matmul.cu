#include <string>

#include "core/engine_memory.hpp"
#include "core/error.hpp"
#include "engine/cuda/matmul.cuh"

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

Matmul::Matmul(Vram& vram, const Stream& stream)
    : workspace_(vram.take(kBlasWorkspaceBytes, "workspace of cuBLAS")), cublas_(stream) {
  cublas_.use_workspace(workspace_.as<void>(), kBlasWorkspaceBytes);
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

}  // namespace rigcast::engine::cuda
