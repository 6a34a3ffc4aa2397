// On a machine without a GPU this tests the path without one; with a GPU, all of the measurement.
#include <string>

#include "probe/gpu.hpp"
#include "probe/gpu/measure_gpus.hpp"
#include "tests/catch.hpp"

using namespace rigcast;

TEST_CASE("GPUs are measured, or one line says why not", "[probe]") {
  std::string last;
  const probe::Gpus gpus = probe::measure_gpus([&](const std::string& what) { last = what; });
  CHECK(last.empty());
  if (gpus.found.empty()) {
    CHECK_FALSE(gpus.none.empty());
    CHECK(gpus.none.find('\n') == std::string::npos);
    return;
  }
  CHECK(gpus.none.empty());
  for (const probe::Gpu& gpu : gpus.found) {
    INFO(gpu.name);
    for (const std::string& note : gpu.notes)
      CHECK(note.find("not measured: ") != std::string::npos);
    if (!gpu.notes.empty()) continue;  // another program may hold the GPU's memory
    CHECK(gpu.memory > 1_GiB);
    CHECK(gpu.context.median < gpu.memory.value / 2);
    CHECK(gpu.vram_read.median > 1e10);
    CHECK(gpu.vram_read.median > gpu.copies.h2d_pinned.bytes_per_s.median);
    CHECK(gpu.copies.h2d_pinned.latency_s.median < 1e-3);
  }
}
