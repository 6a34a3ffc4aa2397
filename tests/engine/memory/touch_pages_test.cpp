#include "engine/memory/touch_pages.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "engine/memory/large_pages.hpp"
#include "tests/catch.hpp"

using namespace rigcast::engine;

namespace {

std::size_t resident_pages(const LargePages& memory) {
  const auto page = std::size_t(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident((memory.size() + page - 1) / page);
  REQUIRE(::mincore(memory.data(), memory.size(), resident.data()) == 0);
  return std::size_t(std::ranges::count_if(resident, [](unsigned char r) { return r & 1u; }));
}

}  // namespace

TEST_CASE("Touched memory is there to the last page, and holds what it held", "[engine][memory]") {
  const auto page = std::size_t(::sysconf(_SC_PAGESIZE));
  // Less than a large page; pieces of several threads; a last page that is not full.
  for (const std::size_t bytes : {std::size_t(1), 3 * page, std::size_t(40 << 20) + page + 7}) {
    const LargePages memory(bytes);
    memory.data()[0] = std::byte{1};
    memory.data()[bytes - 1] = std::byte{2};
    touch_pages(memory.data(), bytes);
    CHECK(resident_pages(memory) == (bytes + page - 1) / page);
    CHECK(memory.data()[bytes - 1] == std::byte{2});
    if (bytes > 1) CHECK(memory.data()[0] == std::byte{1});
    if (bytes > 2) CHECK(memory.data()[bytes / 2] == std::byte{0});
  }
}

TEST_CASE("Who is asked to stop touches no more", "[engine][memory]") {
  const LargePages memory(64 << 20);
  const std::atomic<bool> asked{true};
  CHECK_THROWS_AS(touch_pages(memory.data(), 64 << 20, rigcast::StopFlag(asked)),
                  rigcast::Interrupted);
  CHECK(resident_pages(memory) == 0);
}

TEST_CASE("Nothing is touched of no memory", "[engine][memory]") {
  CHECK_NOTHROW(touch_pages(nullptr, 0));
}
