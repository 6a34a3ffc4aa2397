// What llama-bench told, as a report that a forecast is held against.

#include "perfmodel/resolve_placement.hpp"
#include "tests/catch.hpp"
#include "tests/sim/scenario_fixtures.hpp"
#include "validation/report_comparison.hpp"
#include "validation/runs/llama_cpp/measured_report.hpp"

using namespace rigcast;
using namespace rigcast::validation;
using fixtures::scenario;

namespace {

BenchTest test_of(std::vector<double> tokens_per_s, Seconds load) {
  BenchTest t;
  t.tokens_per_s = std::move(tokens_per_s);
  t.load = load;
  return t;
}

LlamaBenchMeasurement measurement(std::vector<BenchBuffer> buffers) {
  LlamaBenchMeasurement m;
  m.prefill.tests = {test_of({900, 1000, 1100}, Seconds{4})};
  m.prefill.tests[0].prompt = 500;
  m.decode.tests = {test_of({48, 50, 49}, Seconds{1})};
  m.decode.tests[0].output = 64;
  m.decode.tests[0].buffers = std::move(buffers);
  return m;
}

Report report_of(const Scenario& s, std::vector<BenchBuffer> buffers) {
  return measured_report(std::make_shared<const Scenario>(s), resolve_placement(s),
                         measurement(std::move(buffers)), true);
}

}  // namespace

TEST_CASE("A report of llama-bench has medians, ranges and starts", "[llama-bench]") {
  const Report r = report_of(scenario({}), {});
  CHECK(r.origin == Origin::kMeasured);
  CHECK(r.prefill_tokens_per_s == 1000);
  CHECK(r.decode_tokens_per_s == 49);
  REQUIRE(r.tokens_per_s_interval);
  CHECK(r.tokens_per_s_interval->lo == 48);
  CHECK(r.tokens_per_s_interval->hi == 50);
  CHECK(r.resident->total().value == Approx(0.5));
  CHECK(r.warm->total().value == Approx(1.5));
  CHECK(r.cold->total().value == Approx(4.5));
  CHECK(r.memory.devices.empty());
}

TEST_CASE("Buffers of llama.cpp are of the device that holds them", "[llama-bench]") {
  const Report r = report_of(scenario({}), {{"CUDA0", "model", Bytes{100}},
                                            {"CUDA0", "KV", Bytes{10}},
                                            {"CUDA0", "compute", Bytes{5}},
                                            {"CPU_Mapped", "model", Bytes{40}},
                                            {"CUDA_Host", "compute", Bytes{3}},
                                            {"CPU", "output", Bytes{2}}});
  REQUIRE(r.memory.devices.size() == 2);
  const DeviceMemory &gpu = r.memory.devices[0], &host = r.memory.devices[1];
  CHECK(gpu.weights == Bytes{100});
  CHECK(gpu.kv == Bytes{10});
  CHECK(gpu.activations == Bytes{5});
  CHECK(host.weights == Bytes{40});
  CHECK(host.activations == Bytes{5});
}

TEST_CASE("Pages between a host's weights that were copied elsewhere are page cache",
          "[llama-bench]") {
  // The embedding is the file's first tensor, the head its last: all of it is mapped.
  const Scenario s = scenario({{"runtime.build", "2025-11"}, {"placement.gpu_layers", "32"}});
  const double file = double(s.tensors.bytes());
  double layers = 0;
  for (const LayerWeights& l : s.tensors.layers) layers += double(l.bytes());
  Report r = report_of(s, {{"CUDA0", "model", Bytes{layers}},
                           {"CPU_Mapped", "model", Bytes{file}},
                           {"CPU", "KV", Bytes{7}}});
  const DeviceMemory& host = r.memory.devices.back();
  CHECK(host.weights.value == Approx(file - layers));
  CHECK(host.page_cache.value == Approx(layers));
  CHECK(host.kv == Bytes{7});
  // What was counted once stays as it is.
  leave_copied_pages(s, r.placement, host.weights, r.memory.devices);
  CHECK(host.weights.value == Approx(file - layers));
}

TEST_CASE("Weights that are repacked for the CPU count once", "[llama-bench]") {
  const Scenario s = scenario({{"rig.gpu", "[]"}});
  const double file = double(s.tensors.bytes());
  for (const char* buffer : {"AMX", "CPU_REPACK"}) {
    const Report r = report_of(s, {{buffer, "model", Bytes{0.9 * file}},
                                   {"CPU_Mapped", "model", Bytes{file}},
                                   {"CPU", "RS", Bytes{7}}});
    REQUIRE(r.memory.devices.size() == 1);
    CHECK(r.memory.devices[0].weights.value == Approx(file));
    CHECK(r.memory.devices[0].page_cache.value == Approx(0.9 * file));
    CHECK(r.memory.devices[0].kv == Bytes{7});
  }
}
