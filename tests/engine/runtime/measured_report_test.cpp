#include "engine/runtime/measured_report.hpp"

#include "core/placement.hpp"
#include "tests/catch.hpp"

using namespace rigcast;
using namespace rigcast::engine;

namespace {

// Two tokens a second, which read `read` bytes/s.
MeasuredRuns runs_that_read(double read, double ceiling, bool on_gpu) {
  RequestTimes times;
  times.tokens.at_s = {0.5, 1.0, 1.5};
  times.prefill = Seconds{0.4};
  times.decode_bytes.weights = read;  // in the second from the first token to the last
  MeasuredRuns runs;
  runs.resident = {times};
  if (on_gpu) runs.gpus = {{"GPU 0", Tier::kVram, {}, {}, {}, {}, {}, {}, {}}};
  runs.host = {"host", Tier::kRam, {}, {}, {}, {}, {}, {}, {}};
  (on_gpu ? runs.vram_ceiling : runs.dram_ceiling) = BytesPerSecond{ceiling};
  return runs;
}

Bottleneck bound_of(const MeasuredRuns& runs) {
  auto scenario = std::make_shared<Scenario>();
  scenario->workload.prompt_tokens = 10;
  scenario->workload.output_tokens = 3;
  return measured_report(scenario, Placement{}, runs).decode_bound;
}

}  // namespace

TEST_CASE("What holds decoding back is told by what memory was measured to give",
          "[engine][report]") {
  CHECK(bound_of(runs_that_read(90, 100, false)).resource == Resource::kRam);
  CHECK(bound_of(runs_that_read(90, 100, false)).share == Approx(0.9));
  CHECK(bound_of(runs_that_read(79, 100, false)).resource == Resource::kCpu);
  CHECK(bound_of(runs_that_read(51, 100, true)).resource == Resource::kVram);
  CHECK(bound_of(runs_that_read(51, 100, true)).share == Approx(0.51));
  CHECK(bound_of(runs_that_read(21, 100, true)).resource == Resource::kLaunch);
  CHECK(bound_of(runs_that_read(21, 100, true)).share == Approx(0.79));
  // Shared: the memory whose reading took longer.
  MeasuredRuns shared = runs_that_read(1090, 1000, true);
  shared.resident.front().decode_bytes.on_host = 90;
  shared.dram_ceiling = BytesPerSecond{100};
  CHECK(bound_of(shared).resource == Resource::kVram);
  shared.resident.front().decode_bytes.weights = 190;
  CHECK(bound_of(shared).resource == Resource::kRam);
  CHECK(bound_of(shared).share == Approx(0.9));
  // Nobody knows where the ceiling is.
  CHECK(bound_of(runs_that_read(21, 0, true)).resource == Resource::kGpu);
  CHECK(bound_of(runs_that_read(21, 0, false)).resource == Resource::kCpu);
}
