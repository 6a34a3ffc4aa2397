#pragma once
// Much page-locked memory at once: large pages are there and locked in a fraction of the time that
// as many small ones take.

#include "engine/cuda/cuda_call.cuh"
#include "engine/memory/large_pages.hpp"

namespace rigcast::engine {

/// Memory of the host that GPUs copy from and to; begins a page. Throws std::bad_alloc,
/// CudaFailure.
class PinnedPages {
 public:
  explicit PinnedPages(std::size_t bytes) : pages_(bytes) {
    RIGCAST_CUDA_CALL(cudaHostRegister(pages_.data(), bytes, cudaHostRegisterDefault));
  }
  ~PinnedPages() { static_cast<void>(cudaHostUnregister(pages_.data())); }
  PinnedPages(const PinnedPages&) = delete;
  PinnedPages& operator=(const PinnedPages&) = delete;

  std::byte* data() const { return pages_.data(); }

 private:
  LargePages pages_;
};

}  // namespace rigcast::engine
