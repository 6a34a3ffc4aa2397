#pragma once
// Much page-locked memory at once: large pages are there and locked in a fraction of the time that
// as many small ones take, and several threads clear them.

#include "engine/cuda/cuda_call.cuh"
#include "engine/memory/large_pages.hpp"
#include "engine/memory/touch_pages.hpp"

namespace rigcast::engine {

/// Memory of the host that GPUs copy from and to, and kernels read and write; begins a page. Throws
/// std::bad_alloc, CudaFailure.
class PinnedPages {
 public:
  explicit PinnedPages(std::size_t bytes) : pages_(bytes) {
    touch_pages(pages_.data(), bytes);
    RIGCAST_CUDA_CALL(cudaHostRegister(pages_.data(), bytes, cudaHostRegisterMapped));
  }
  ~PinnedPages() { static_cast<void>(cudaHostUnregister(pages_.data())); }
  PinnedPages(const PinnedPages&) = delete;
  PinnedPages& operator=(const PinnedPages&) = delete;

  std::byte* data() const { return pages_.data(); }
  /// The same memory under the address that kernels use.
  std::byte* on_device() const {
    void* place = nullptr;
    RIGCAST_CUDA_CALL(cudaHostGetDevicePointer(&place, pages_.data(), 0));
    return static_cast<std::byte*>(place);
  }

 private:
  LargePages pages_;
};

}  // namespace rigcast::engine
