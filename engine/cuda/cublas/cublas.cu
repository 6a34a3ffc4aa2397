#include "engine/cuda/cublas/cublas.cuh"

#include <cstdint>

#include "core/base/error.hpp"

namespace rigcast::engine {
namespace {

using Create = cublasStatus_t(cublasHandle_t*);
using Destroy = cublasStatus_t(cublasHandle_t);
using SetStream = cublasStatus_t(cublasHandle_t, cudaStream_t);
using SetWorkspace = cublasStatus_t(cublasHandle_t, void*, std::size_t);
using SetMathMode = cublasStatus_t(cublasHandle_t, cublasMath_t);
using Gemm = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n,
                            int k, const void* alpha, const void* a, cudaDataType, int lda,
                            const void* b, cudaDataType, int ldb, const void* beta, void* c,
                            cudaDataType, int ldc, cublasComputeType_t, cublasGemmAlgo_t);
using StridedGemm = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m,
                                   int n, int k, const void* alpha, const void* a, cudaDataType,
                                   int lda, long long stride_a, const void* b, cudaDataType,
                                   int ldb, long long stride_b, const void* beta, void* c,
                                   cudaDataType, int ldc, long long stride_c, int count,
                                   cublasComputeType_t, cublasGemmAlgo_t);

}  // namespace

// What is called here is the same in both versions.
Cublas::Cublas(const Stream& stream)
    : library_{"libcublas.so.13", "/usr/local/cuda/lib64/libcublas.so.13", "libcublas.so.12",
               "/usr/local/cuda/lib64/libcublas.so.12"} {
  auto* create = library_.function<Create>("cublasCreate_v2");
  auto* set_stream = library_.function<SetStream>("cublasSetStream_v2");
  if (!create || !set_stream || !library_.function<Gemm>("cublasGemmEx"))
    throw MachineError("cuBLAS is not found: install libcublas of CUDA 12 or 13");
  if (create(&handle_) != CUBLAS_STATUS_SUCCESS)
    throw MachineError("cuBLAS does not start: is its version too new for the driver?");
  set_stream(handle_, stream.get());
}

Cublas::~Cublas() {
  if (auto* destroy = library_.function<Destroy>("cublasDestroy_v2"); handle_ && destroy)
    destroy(handle_);
}

void Cublas::use_workspace(void* on_device, std::size_t bytes) {
  auto* set = library_.function<SetWorkspace>("cublasSetWorkspace_v2");
  if (!set || set(handle_, on_device, bytes) != CUBLAS_STATUS_SUCCESS)
    throw MachineError("cuBLAS takes no workspace");
}

void Cublas::keep_sums_wide() {
  auto* set = library_.function<SetMathMode>("cublasSetMathMode");
  constexpr auto kMode = CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
  if (!set || set(handle_, kMode) != CUBLAS_STATUS_SUCCESS)
    throw MachineError("cuBLAS does not keep its sums in F32");
}

bool Cublas::multiply(const ProductType& type, const ProductShape& shape,
                      const Operands& at) const {
  // Factors are of the type of the sums.
  const float one = 1, zero = 0;
  const std::int32_t whole_one = 1, whole_zero = 0;
  const bool whole = type.sums == CUBLAS_COMPUTE_32I;
  const void* alpha = whole ? static_cast<const void*>(&whole_one) : &one;
  const void* none = whole ? static_cast<const void*>(&whole_zero) : &zero;
  const void* beta = at.add_to_result ? alpha : none;
  // The library counts by columns: what lies here row by row is its transpose.
  auto* gemm = library_.function<Gemm>("cublasGemmEx");
  return gemm(handle_, CUBLAS_OP_T, CUBLAS_OP_N, shape.rows, shape.tokens, shape.columns, alpha,
              at.weights, type.in, shape.columns, at.batch, type.in, shape.columns, beta, at.result,
              type.out, shape.rows, type.sums, CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS;
}

bool Cublas::multiply_heads(const ProductType& type, const ProductShape& shape, const Heads& heads,
                            const Operands& at) const {
  const float one = 1, zero = 0;
  auto* gemm = library_.function<StridedGemm>("cublasGemmStridedBatchedEx");
  return gemm &&
         gemm(handle_, CUBLAS_OP_T, CUBLAS_OP_N, shape.rows, shape.tokens, shape.columns, &one,
              at.weights, type.in, shape.columns,
              static_cast<long long>(shape.rows) * shape.columns, at.batch, type.in,
              heads.count * heads.batch_width, heads.batch_width, at.add_to_result ? &one : &zero,
              at.result, type.out, heads.count * heads.result_width, heads.result_width,
              heads.count, type.sums, CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS;
}

}  // namespace rigcast::engine
