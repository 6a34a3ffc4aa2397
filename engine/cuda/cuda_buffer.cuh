#pragma once
// Owners of GPU memory, and of host memory that the GPU can access.

#include <cstddef>
#include <memory>

#include "engine/cuda/check_pinned.cuh"
#include "engine/cuda/cuda_call.cuh"

namespace rigcast::engine {

/// Memory on the current GPU. Throws CudaFailure.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t bytes) : bytes_(bytes) {
    void* place = nullptr;
    RIGCAST_CUDA_CALL(cudaMalloc(&place, bytes));
    place_.reset(static_cast<std::byte*>(place));
  }

  std::size_t bytes() const { return bytes_; }
  template <class T = void>
  T* as() const {
    return static_cast<T*>(static_cast<void*>(place_.get()));
  }

 private:
  // An error of cudaFree cannot be handled here; the next call reports it again.
  struct Free {
    void operator()(std::byte* place) const { static_cast<void>(cudaFree(place)); }
  };
  std::unique_ptr<std::byte, Free> place_;
  std::size_t bytes_;
};

/// Page-locked memory of the host, which GPUs read and write by themselves.
class PinnedBuffer {
 public:
  /// `what` it is for goes on with "the". Throws as check_pinned.
  explicit PinnedBuffer(std::size_t bytes, const char* what = "buffer that GPU and host share")
      : bytes_(bytes) {
    void* place = nullptr;
    check_pinned(cudaHostAlloc(&place, bytes, cudaHostAllocMapped), bytes, what);
    place_.reset(static_cast<std::byte*>(place));
  }

  std::size_t bytes() const { return bytes_; }
  template <class T = void>
  T* as() const {
    return static_cast<T*>(static_cast<void*>(place_.get()));
  }
  /// The same memory under the address that kernels use.
  template <class T = void>
  T* on_device() const {
    void* place = nullptr;
    RIGCAST_CUDA_CALL(cudaHostGetDevicePointer(&place, place_.get(), 0));
    return static_cast<T*>(place);
  }

 private:
  struct Free {
    void operator()(std::byte* place) const { static_cast<void>(cudaFreeHost(place)); }
  };
  std::unique_ptr<std::byte, Free> place_;
  std::size_t bytes_;
};

}  // namespace rigcast::engine
