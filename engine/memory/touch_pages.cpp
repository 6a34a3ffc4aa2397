#include "engine/memory/touch_pages.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace rigcast::engine {
namespace {

constexpr std::size_t kPiece = 16 << 20;  // whole huge pages, and more work than starting a thread
constexpr std::size_t kMaxThreads = 16;

// Writes to every page. madvise could do it, too, but its callers block one another: on 16 cores it
// reaches 10 GB/s, this 30 to 50.
void write_to_every_page(std::byte* begin, std::size_t bytes) {
  const std::size_t page = std::size_t(::sysconf(_SC_PAGESIZE));
  for (std::size_t at = 0; at < bytes; at += page) {
    volatile std::byte* const b = begin + at;
    *b = *b;
  }
}

}  // namespace

void touch_pages(std::byte* begin, std::size_t bytes, const StopFlag& stop) {
  const std::size_t pieces = (bytes + kPiece - 1) / kPiece;
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i; !stop.stop_requested() && (i = next.fetch_add(1)) < pieces;)
      write_to_every_page(begin + i * kPiece, std::min(kPiece, bytes - i * kPiece));
  };
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < std::min({pieces, cores, kMaxThreads}); ++i) try {
        others.emplace_back(work);
      } catch (const std::system_error&) {
        break;  // the threads that exist do the work
      }
    work();
  }
  stop.throw_if_requested();
}

}  // namespace rigcast::engine
