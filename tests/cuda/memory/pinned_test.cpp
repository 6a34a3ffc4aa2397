// Page-locked memory that is refused: said with what it was for, and nothing is kept.
#include <string>

#include "core/base/error.hpp"
#include "engine/backends/cuda/host_offload/pinned_memory.hpp"
#include "engine/cuda/cuda_buffer.cuh"
#include "engine/cuda/memory/pinned_pages.cuh"
#include "tests/catch.hpp"
#include "tests/machine_error.hpp"
#include "tests/resident_memory.hpp"

namespace rigcast::engine {

// More than any machine has; where there is no GPU, that is what is said.
TEST_CASE("Pinned memory that is refused says what it was for", "[cuda]") {
  const std::string of_buffer = test::machine_error(
      [] { static_cast<void>(PinnedBuffer(std::size_t(1) << 46, "rows of a batch")); });
  CHECK(of_buffer.find("pinned memory: ") == 0);
  CHECK(of_buffer.find(" GiB asked for the rows of a batch, refused: ") != std::string::npos);
  const std::string of_pages = test::machine_error(
      [] { static_cast<void>(PinnedPages(std::size_t(1) << 60, "input embedding")); });
  CHECK(of_pages.find("pinned memory: ") == 0);
  CHECK(of_pages.find(" asked for the input embedding, refused: ") != std::string::npos);
}

TEST_CASE("Memory kept for reuse is counted, and released when other memory is needed", "[cuda]") {
  constexpr std::size_t kBytes = 400'000;
  const Ram ram(1_MiB);
  const Allocator make = cuda::reused(ram, "KV cache", make_large_pages);
  auto first = make(kBytes);
  const auto second = make(kBytes);
  std::byte* const place = first.get();
  first.reset();
  CHECK(ram.held() == Bytes{2.0 * kBytes});
  first = make(kBytes);
  CHECK(first.get() == place);
  CHECK(ram.held() == Bytes{2.0 * kBytes});
  CHECK_THROWS_AS(ram.charge(500'000, "activations"), ShortOfMemory);
  first.reset();
  const RamCharge charge = ram.charge(500'000, "activations");
  CHECK(ram.held() == Bytes{kBytes + 500'000.0});
  CHECK_THROWS_AS(make(kBytes), ShortOfMemory);
}

// Without a GPU every registration fails, after all pages were taken.
TEST_CASE("Pages are given back, whether they could be locked or not", "[cuda]") {
  constexpr std::size_t kBytes = 64 << 20;
  const auto once = [] {
    try {
      static_cast<void>(make_pinned_block(kBytes));
    } catch (const MachineError& error) {
      CHECK(std::string(error.what()).find("64.0 MiB asked for the KV cache, refused: ") !=
            std::string::npos);
    }
  };
  once();  // includes the driver's own memory
  const double before = test::resident_memory().value;
  for (int i = 0; i < 20; ++i) once();
  CHECK(test::resident_memory().value < before + kBytes);
}

}  // namespace rigcast::engine
