#pragma once
// Matrix products by cuBLAS. The library is loaded at its first use and not linked: with cuBLASLt,
// which it needs, it has 600 MB, and the program must start where neither is installed.

#include <cublas_v2.h>

#include "engine/cuda/cuda_stream.cuh"
#include "engine/cuda/shared_library.hpp"

namespace rigcast::engine {

/// The types of operands, sums and results.
struct ProductType {
  cudaDataType in;
  cublasComputeType_t sums;
  cudaDataType out;
  std::size_t bytes_in, bytes_out;  // bytes per value
};

/// weights (rows x columns, rows one after another) times tokens columns.
struct ProductShape {
  int rows = 0, columns = 0, tokens = 0;
  double operations() const { return 2.0 * rows * columns * tokens; }
};

class Cublas {
 public:
  /// Loads the library. Throws MachineError if it cannot be loaded or does not start.
  explicit Cublas(const Stream& stream);
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  /// Sets a workspace in place of the library's own, for as long as it lives; aligned to 256 bytes.
  void use_workspace(void* on_device, std::size_t bytes);
  /// Makes split sums be added in the type of the sums, even if the result is narrower.
  void keep_sums_wide();

  struct Operands {
    const void* weights;
    const void* batch;           // columns values for each token
    void* result;                // rows values for each token
    bool add_to_result = false;  // adds to the existing values
  };
  /// Queues a product and does not wait. Returns false if the library does not support this type at
  /// this shape on this GPU.
  bool multiply(const ProductType& type, const ProductShape& shape, const Operands& at) const;
  /// The same of `heads` products: of head h the weights follow those of h - 1, and columns of a
  /// token's batch and rows of its result are `batch_width` and `result_width` values apart. Types
  /// with sums in F32.
  struct Heads {
    int count = 1, batch_width = 0, result_width = 0;
  };
  bool multiply_heads(const ProductType& type, const ProductShape& shape, const Heads& heads,
                      const Operands& at) const;

 private:
  SharedLibrary library_;
  cublasHandle_t handle_ = nullptr;
};

}  // namespace rigcast::engine
