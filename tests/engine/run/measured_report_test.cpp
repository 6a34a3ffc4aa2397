#include "engine/run/measured_report.hpp"

#include "core/scenario/placement.hpp"
#include "report/report_text.hpp"
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

namespace {

// As `rigcast run --device cuda` would say it of a model of 4 layers, of which 3 are on the GPU.
struct SharedRun {
  std::shared_ptr<Scenario> scenario = std::make_shared<Scenario>();
  MeasuredRuns runs = runs_that_read(1090, 1000, true);

  SharedRun() {
    scenario->model.name = "Tiny";
    scenario->model.layers = 4;
    scenario->quant = "Q8_0";
    scenario->rig.gpus.resize(1);
    scenario->rig.gpus.front().name = "NVIDIA H200";
    scenario->settings.threads = 6;
    scenario->workload.prompt_tokens = 10;
    scenario->workload.output_tokens = 3;
    scenario->placement.gpu_layers = 3;
    RequestTimes& times = runs.resident.front();
    times.decode_bytes = {40e9, 0, 0, 12e9, 1.2e6, 2e6};
    runs.dram_ceiling = BytesPerSecond{20e9};
    runs.vram_ceiling = BytesPerSecond{1000e9};
    runs.gpus.front().weights = 3_GiB;
    runs.gpus.front().capacity = 8_GiB;
    runs.host.weights = 1_GiB;
    runs.host.kv = 256_MiB;
    runs.host.capacity = 16_GiB;
  }
  std::string text() const {
    return to_text(
        measured_report(scenario, place(*scenario, *scenario->placement.gpu_layers), runs), {});
  }
};

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("A shared run is told: who has which layers, bytes by route, both memories",
          "[engine][report]") {
  SharedRun shared;
  std::string text = shared.text();
  INFO(text);
  CHECK(has(text, "1 run, 6 threads\n"));
  CHECK(has(text, "  shared         3 of 4 layers on GPU 0, head on the CPU\n"));
  CHECK(has(text,
            "by a request: RAM 12.0 GB, VRAM 28.0 GB, 1.20 MB to the GPU, 2.00 MB to the host\n"));
  CHECK(has(text, "12.0 GB/s of weights and cache while decoding, 60 %"));
  CHECK(has(text, "\n  VRAM"));
  CHECK(has(text, "\n  RAM"));

  shared.scenario->placement.decode_device = DecodeDevice::kGpu;
  CHECK(has(shared.text(), "3 of 4 layers on GPU 0, 1 streamed to it, head on the CPU\n"));
  shared.scenario->placement.decode_device = DecodeDevice::kPlacement;

  shared.scenario->placement.gpu_layers = 5;
  text = shared.text();
  CHECK(has(text, "1 run\n"));
  CHECK(!has(text, "shared"));
  CHECK(!has(text, "by a request"));

  shared.scenario->kv.policy = KvPolicy::kRam;
  text = shared.text();
  CHECK(has(text, "4 of 4 layers and the head on GPU 0, KV in RAM\n"));
  CHECK(has(text, "1 run, 6 threads\n"));

  shared.scenario->kv.policy = KvPolicy::kVram;
  shared.scenario->model.moe.emplace();
  shared.scenario->placement.cpu_moe_layers = 2;
  CHECK(has(shared.text(), "4 of 4 layers and the head on GPU 0, experts of 2 layers in RAM\n"));
}

TEST_CASE("A run that decodes on the host tells what the GPU had of it", "[engine][report]") {
  SharedRun shared;
  shared.scenario->placement.decode_device = DecodeDevice::kCpu;
  shared.runs.resident.front().decode_bytes = {12e9, 0, 0, 12e9, 0, 0};
  const std::string text = shared.text();
  INFO(text);
  CHECK(has(text, "prompts: 3 of 4 layers on GPU 0; decode: all on the CPU\n"));
  CHECK(has(text, "bound by RAM bandwidth 60 %"));
}
