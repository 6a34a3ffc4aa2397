#pragma once
// Anonymous memory on large pages, where the system has them: what is read from end to end for
// every token waits for no page walks.

#include <cstddef>
#include <utility>

namespace rigcast::engine {

class LargePages {
 public:
  LargePages() = default;
  /// Zeros, taken from the system as they are touched. Begins a large page if it is as long as one.
  /// Throws std::bad_alloc.
  explicit LargePages(std::size_t bytes);
  ~LargePages();
  LargePages(LargePages&& other) noexcept { *this = std::move(other); }
  LargePages& operator=(LargePages&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace rigcast::engine
