#pragma once
// Matrix products by NVIDIA's library. It is loaded when something multiplies and not linked: with
// cuBLASLt, which it needs, it takes 600 MB, and the program has to start where neither is.

#include <cublas_v2.h>

#include "engine/cuda/cuda_stream.cuh"
#include "engine/cuda/shared_library.hpp"

namespace rigcast::engine {

/// What is multiplied, what it is summed in, and what comes out.
struct ProductType {
  cudaDataType in;
  cublasComputeType_t sums;
  cudaDataType out;
  std::size_t bytes_in, bytes_out;  // of one value
};

/// weights (rows x columns, rows one after another) times tokens columns.
struct ProductShape {
  int rows = 0, columns = 0, tokens = 0;
  double operations() const { return 2.0 * rows * columns * tokens; }
};

class Cublas {
 public:
  /// Throws MachineError where the library cannot be loaded or does not start.
  explicit Cublas(const Stream& stream);
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  /// In place of memory of the library's own, for as long as it lives; aligned to 256 bytes.
  void use_workspace(void* on_device, std::size_t bytes);
  /// Parts of a sum are put together in the type of the sums, also where the result is narrower.
  void keep_sums_wide();

  struct Operands {
    const void* weights;
    const void* batch;           // columns values for each token
    void* result;                // rows values for each token
    bool add_to_result = false;  // what is there already
  };
  /// Queued, not waited for. False: the library does not do this type at this shape here.
  bool multiply(const ProductType& type, const ProductShape& shape, const Operands& at) const;

 private:
  SharedLibrary library_;
  cublasHandle_t handle_ = nullptr;
};

}  // namespace rigcast::engine
