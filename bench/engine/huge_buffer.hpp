#pragma once
// Memory on huge pages: what streams through it waits for no page walks.

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <utility>

namespace rigcast::bench {

class HugeBuffer {
 public:
  HugeBuffer() = default;
  explicit HugeBuffer(std::size_t bytes) : bytes_(bytes) {
    data_ = static_cast<std::byte*>(::operator new(bytes, kPage));
    madvise(data_, bytes, MADV_HUGEPAGE);  // advice: without it the figures are lower, not wrong
  }
  ~HugeBuffer() { ::operator delete(data_, kPage); }
  HugeBuffer(HugeBuffer&& other) noexcept { *this = std::move(other); }
  HugeBuffer& operator=(HugeBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }

 private:
  static constexpr std::align_val_t kPage{2 << 20};

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace rigcast::bench
