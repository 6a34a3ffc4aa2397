#pragma once
// Anonymous memory on huge pages, where the system has them: memory that every token reads from end
// to end then causes few page walks.

#include <cstddef>
#include <utility>

namespace rigcast::engine {

class LargePages {
 public:
  LargePages() = default;
  /// Zeroed memory, which the system provides when it is touched. It begins at a huge page if it is
  /// as long as one. Throws std::bad_alloc.
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
