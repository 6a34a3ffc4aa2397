#include "engine/memory/large_pages.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <limits>
#include <new>

namespace rigcast::engine {
namespace {

constexpr std::size_t kLargePage = 2 << 20, kPage = 4096;

std::size_t rounded_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

// The system aligns to small pages only, so more is mapped than needed, and the ends are unmapped.
LargePages::LargePages(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  if (bytes > std::numeric_limits<std::size_t>::max() / 2) throw std::bad_alloc();
  const std::size_t kept = rounded_up(bytes, kPage), spare = bytes < kLargePage ? 0 : kLargePage;
  void* p = ::mmap(nullptr, kept + spare, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<std::byte*>(p);
  if (spare == 0) return;
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(p) % kLargePage;
  if (before > 0) ::munmap(data_, before);
  data_ += before;
  ::munmap(data_ + kept, spare - before);
  ::madvise(data_, kept, MADV_HUGEPAGE);  // only advice: small pages are slower, not wrong
}

LargePages::~LargePages() {
  if (data_) ::munmap(data_, rounded_up(bytes_, kPage));
}

}  // namespace rigcast::engine
