// What the simulated runtime finds: a missing event, in any order in which work happens to run.
#include <set>

#include "engine/cuda/cuda_stream.cuh"
#include "engine/cuda/sync_event.cuh"
#include "tests/catch.hpp"
#include "tests/streams/simulated_cuda.cuh"

using namespace rigcast;
using namespace rigcast::engine;
using simulated_cuda::Accesses;

namespace {

// What a kernel of one stream reads of what one of another writes.
int read_across(std::uint64_t seed, bool with_event) {
  simulated_cuda::restart(seed);
  int value = 1, seen = 0;
  {
    const Stream writing, reading;
    const SyncEvent written;
    simulated_cuda::launch(writing.get(), [&](Accesses& a) { a.store(&value, 2); });
    written.set(writing);
    if (with_event) written.make_wait(reading);
    simulated_cuda::launch(reading.get(), [&](Accesses& a) { a.store(&seen, a.load(&value)); });
    reading.wait();
    writing.wait();
  }
  return seen;
}

}  // namespace

TEST_CASE("Work of streams runs in any order, but for events", "[streams]") {
  std::set<int> without, with;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    without.insert(read_across(seed, false));
    CHECK(simulated_cuda::races().size() == 1);
    with.insert(read_across(seed, true));
    CHECK(simulated_cuda::races().empty());
  }
  CHECK(without == std::set{1, 2});
  CHECK(with == std::set{2});
}

TEST_CASE("What is written after a read races with it unless the host has waited", "[streams]") {
  for (const bool waits : {false, true}) {
    simulated_cuda::restart(3);
    int value = 1, seen = 0;
    const Stream reading, writing;
    simulated_cuda::launch(reading.get(), [&](Accesses& a) { a.store(&seen, a.load(&value)); });
    if (waits) reading.wait();
    simulated_cuda::launch(writing.get(), [&](Accesses& a) { a.store(&value, 2); });
    writing.wait();
    reading.wait();
    CHECK(simulated_cuda::races().empty() == waits);
  }
}
