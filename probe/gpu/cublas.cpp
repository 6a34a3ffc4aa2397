#include "probe/gpu/cublas.cuh"

#include <cstdint>
#include <stdexcept>

namespace rigcast::probe {
namespace {

using Create = cublasStatus_t(cublasHandle_t*);
using Destroy = cublasStatus_t(cublasHandle_t);
using SetStream = cublasStatus_t(cublasHandle_t, cudaStream_t);
using Gemm = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n,
                            int k, const void* alpha, const void* a, cudaDataType, int lda,
                            const void* b, cudaDataType, int ldb, const void* beta, void* c,
                            cudaDataType, int ldc, cublasComputeType_t, cublasGemmAlgo_t);

}  // namespace

// What is called here is the same in both versions.
Cublas::Cublas(const engine::Stream& stream)
    : library_{"libcublas.so.13", "/usr/local/cuda/lib64/libcublas.so.13", "libcublas.so.12",
               "/usr/local/cuda/lib64/libcublas.so.12"} {
  auto* create = library_.function<Create>("cublasCreate_v2");
  auto* set_stream = library_.function<SetStream>("cublasSetStream_v2");
  if (!create || !set_stream || !library_.function<Gemm>("cublasGemmEx"))
    throw std::runtime_error("cuBLAS is not found: install libcublas of CUDA 12 or 13");
  if (create(&handle_) != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error("cuBLAS does not start: is its version too new for the driver?");
  set_stream(handle_, stream.get());
}

Cublas::~Cublas() {
  if (auto* destroy = library_.function<Destroy>("cublasDestroy_v2"); handle_ && destroy)
    destroy(handle_);
}

bool Cublas::multiply(const ProductType& type, const ProductShape& shape,
                      const Operands& at) const {
  // Factors are of the type of the sums.
  const float one = 1, zero = 0;
  const std::int32_t whole_one = 1, whole_zero = 0;
  const bool whole = type.sums == CUBLAS_COMPUTE_32I;
  const void* alpha = whole ? static_cast<const void*>(&whole_one) : &one;
  const void* beta = whole ? static_cast<const void*>(&whole_zero) : &zero;
  // The library counts by columns: what lies here row by row is its transpose.
  auto* gemm = library_.function<Gemm>("cublasGemmEx");
  return gemm(handle_, CUBLAS_OP_T, CUBLAS_OP_N, shape.rows, shape.tokens, shape.columns, alpha,
              at.weights, type.in, shape.columns, at.batch, type.in, shape.columns, beta, at.result,
              type.out, shape.rows, type.sums, CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS;
}

}  // namespace rigcast::probe
