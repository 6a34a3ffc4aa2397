#include "engine/backends/cuda/host_offload/pinned_memory.hpp"

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "core/text/unit_text.hpp"
#include "engine/cuda/memory/pinned_pages.cuh"
#include "engine/memory/process_memory.hpp"

namespace rigcast::engine::cuda {
namespace {

std::shared_ptr<std::byte> make_pinned(std::size_t bytes, const std::string& item,
                                       const StopFlag& stop) {
  if (bytes == 0) return nullptr;
  // The system commits pages when they are touched, and kills a process that touches more than
  // there are; so the free memory is checked first.
  if (const Bytes free = available_memory(); Bytes{double(bytes)} > free)
    throw ShortOfMemory("host memory: " + text_gib(Bytes{double(bytes)}) + " asked for the " +
                        item + ", " + text_gib(free) + " free");
  const auto pages = std::make_shared<PinnedPages>(bytes, item.c_str(), stop);
  return {pages, pages->data()};
}

// Freed memory by size, shared by several threads.
struct Kept {
  std::mutex mutex;
  std::map<std::size_t, std::vector<std::shared_ptr<std::byte>>> by_size;

  std::shared_ptr<std::byte> take(std::size_t bytes) {
    const std::lock_guard lock(mutex);
    auto& same = by_size[bytes];
    if (same.empty()) return nullptr;
    auto memory = std::move(same.back());
    same.pop_back();
    return memory;
  }
  void put(std::size_t bytes, std::shared_ptr<std::byte> memory) {
    const std::lock_guard lock(mutex);
    by_size[bytes].push_back(std::move(memory));
  }
  void release() {
    const std::lock_guard lock(mutex);
    by_size.clear();
  }
};

}  // namespace

Allocator pinned_memory(const std::string& item, const StopFlag& stop) {
  return [item, stop](std::size_t bytes) { return make_pinned(bytes, item, stop); };
}

Allocator reused(const Ram& ram, const std::string& item, Allocator make) {
  const auto kept = std::make_shared<Kept>();
  ram.on_pressure([of = std::weak_ptr<Kept>(kept)] {
    if (const auto still = of.lock()) still->release();
  });
  return [kept, make = ram.tracked(item, std::move(make))](std::size_t bytes) {
    auto memory = kept->take(bytes);
    if (!memory) memory = make(bytes);
    std::byte* const begin = memory.get();
    return std::shared_ptr<std::byte>(
        begin, [kept, bytes, memory](std::byte*) { kept->put(bytes, memory); });
  };
}

}  // namespace rigcast::engine::cuda
