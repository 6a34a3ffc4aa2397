#pragma once
// Every call of the CUDA runtime is checked: RIGCAST_CUDA_CALL(cudaStreamSynchronize(stream)).

#include <cuda_runtime.h>

#include <cstring>
#include <string>

#include "core/base/error.hpp"

namespace rigcast::engine {

/// Says the call, what the runtime answered, file and line. Caught where a part of the work can be
/// left out; never leaves the code that uses CUDA.
class CudaFailure : public MachineError {
 public:
  struct Place {
    const char* call;
    const char* file;
    int line;
  };
  CudaFailure(cudaError_t code, const Place& place)
      : MachineError(text(code, place)), code_(code) {}

  bool is_out_of_memory() const { return code_ == cudaErrorMemoryAllocation; }

 private:
  static std::string text(cudaError_t code, const Place& place) {
    const char* slash = std::strrchr(place.file, '/');
    return std::string(cudaGetErrorString(code)) + " (" + place.call + ", " +
           (slash ? slash + 1 : place.file) + ":" + std::to_string(place.line) + ")";
  }

  cudaError_t code_;
};

inline void check_cuda(cudaError_t code, const CudaFailure::Place& place) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // what was said is not said again by the next call
  throw CudaFailure(code, place);
}

}  // namespace rigcast::engine

#define RIGCAST_CUDA_CALL(call) ::rigcast::engine::check_cuda(call, {#call, __FILE__, __LINE__})
