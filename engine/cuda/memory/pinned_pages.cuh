#pragma once
// Large allocations of page-locked memory: huge pages are cleared by several threads, and locked in
// a fraction of the time that small pages take.

#include <memory>
#include <new>

#include "engine/cuda/check_pinned.cuh"
#include "engine/cuda/cuda_call.cuh"
#include "engine/memory/large_pages.hpp"
#include "engine/memory/touch_pages.hpp"

namespace rigcast::engine {

/// Host memory that GPUs copy from and to, and that kernels access; it begins at a page.
class PinnedPages {
 public:
  /// `what` it is for goes on with "the". Throws as check_pinned and touch_pages; then all is given
  /// back.
  explicit PinnedPages(std::size_t bytes, const char* what = "pages that GPU and host share",
                       const StopFlag& stop = {})
      : pages_(mapped(bytes, what)) {
    touch_pages(pages_.data(), bytes, stop);
    check_pinned(cudaHostRegister(pages_.data(), bytes, cudaHostRegisterMapped), bytes, what);
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
  static LargePages mapped(std::size_t bytes, const char* what) try {
    return LargePages(bytes);
  } catch (const std::bad_alloc&) {
    throw ShortOfMemory(pinned_failure_text(bytes, what, "the system has no more addresses"));
  }

  LargePages pages_;
};

/// Page-locked memory for blocks of a KV cache.
inline std::shared_ptr<std::byte> make_pinned_block(std::size_t bytes) {
  const auto pages = std::make_shared<PinnedPages>(bytes, "KV cache");
  return {pages, pages->data()};
}

}  // namespace rigcast::engine
