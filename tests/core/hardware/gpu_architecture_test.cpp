#include "core/hardware/gpu_architecture.hpp"

#include <algorithm>
#include <set>

#include "tests/catch.hpp"
#include "tests/core/catalogue_fixture.hpp"

using namespace rigcast;
using fixtures::catalogue;

namespace {

constexpr double kRounding = 1e-12;

GpuPart gpu(const char* id) {
  auto part = catalogue().gpu(id);
  REQUIRE(part);
  return *std::move(part);
}

double units_hz(const char* id) { return unit_rate(gpu(id)).value; }
double gemm(const char* id) { return gemm_rate(gpu(id)).value.value; }
double tiles(const char* id) { return tile_rate(gpu(id)).value.value; }

Approx rate(double value) { return Approx(value).epsilon(kRounding); }

}  // namespace

TEST_CASE("Every architecture comes after the one it is most like, once", "[architecture]") {
  std::set<std::string_view> before;
  for (const GpuArchitecture& a : gpu_architectures()) {
    INFO(a.name);
    CHECK((a.neighbour.empty() || before.contains(a.neighbour)));
    CHECK(before.insert(a.name).second);
    CHECK((a.lanes == 64 || a.lanes == 128 || a.lanes == 192 || a.lanes == 256));
    CHECK((a.last_cuda == 0 || a.last_cuda == 11 || a.last_cuda == 12));
    CHECK(gpu_architecture(a.name) == &a);
  }
  CHECK(gpu_architecture("") == nullptr);
  CHECK(gpu_architecture("Ampere") == nullptr);
}

TEST_CASE("Every GPU of the catalogue has an architecture that is known", "[architecture]") {
  std::set<std::string> used;
  for (const std::string& id : catalogue().ids("hwprofiles/gpus")) {
    const GpuPart part = gpu(id.c_str());
    INFO(id << ": " << part.architecture);
    CHECK(gpu_architecture(part.architecture) != nullptr);
    used.insert(part.architecture);
  }
  for (const GpuArchitecture& a : gpu_architectures()) {
    INFO(a.name);
    CHECK(used.contains(std::string(a.name)));
  }
}

TEST_CASE("The clock that a part's lanes imply is one that GPUs run at", "[architecture]") {
  // The P100 has 64 lanes in a unit, unlike all of Pascal after it. On the CMP 170HX multiply-adds
  // are slowed down on purpose. The K80 boosts to 875 MHz.
  const std::set<std::string> apart{"p100-16gb", "cmp-170hx-8gb", "cmp-170hx-64gb", "k80"};
  int checked = 0;
  for (const std::string& id : catalogue().ids("hwprofiles/gpus")) {
    const GpuPart part = gpu(id.c_str());
    if (!part.fp32 || !part.units || apart.contains(id)) continue;
    const double clock = unit_rate(part).value / *part.units;
    INFO(id << ": " << clock / 1e9 << " GHz");
    CHECK(clock > 1.0e9);
    CHECK(clock < 3.2e9);
    ++checked;
  }
  CHECK(checked > 100);
}

TEST_CASE("Units do a cycle's multiply-adds on all of their lanes", "[architecture]") {
  CHECK(units_hz("rtx-3090") == rate(35.6e12 / (2 * 128)));
  CHECK(units_hz("t4-16gb") == rate(8.1e12 / (2 * 64)));  // Turing: 64 lanes
  CHECK(units_hz("a100-pcie-80gb") == rate(19.5e12 / (2 * 64)));
  CHECK(units_hz("p40") == rate(11.76e12 / (2 * 128)));
  CHECK(units_hz("mi50-32gb") == rate(13.3e12 / (2 * 64)));
  CHECK(units_hz("mi210") == rate(22.6e12 / (2 * 64)));
  CHECK(units_hz("rx-6800") == rate(16.17e12 / (2 * 64)));
  CHECK(units_hz("rx-7900-xtx") == rate(61.44e12 / (2 * 128)));           // dual issue
  CHECK(dot_rate(gpu("rx-7900-xtx")).value.value == rate(2 * 61.44e12));  // which dots have none of
  CHECK(units_hz("arc-b580") == rate(13.67e12 / (2 * 128)));
  CHECK(units_hz("apple-m2-10c") == rate(3.579e12 / (2 * 128)));
  CHECK(units_hz("k80") == rate(13 * 875e6).epsilon(0.001));  // Kepler: 192 lanes
  CHECK(units_hz("adreno-x1-85") == rate(3.8e12 / (2 * 256)));
}

TEST_CASE("A part without an FP32 rate is taken to have 30 FLOP for a byte", "[architecture]") {
  GpuPart part = gpu("rtx-3090");
  part.fp32.reset();
  CHECK(unit_rate(part).value == rate(30 * 936e9 / (2 * 128)));
  part.architecture = "never-heard-of";  // 128 lanes
  CHECK(unit_rate(part).value == rate(30 * 936e9 / (2 * 128)));
  part.fp16_tensor.reset();
  part.fp16_tensor_fp16acc.reset();
  part.int8_tensor.reset();
  CHECK(gemm_rate(part).value.value == rate(30 * 936e9));
  CHECK(gemm_rate(part).kind == SourceKind::kAssumed);
  CHECK(tile_rate(part).value.value == rate(30 * 936e9));
}

TEST_CASE("Products of floats run as FP16, with FP16 sums where that is a rate of its own",
          "[architecture]") {
  CHECK(gemm("rtx-3090") == rate(142e12));
  CHECK(gemm("t4-16gb") == rate(65e12));
  CHECK(gemm("rx-7900-xtx") == rate(122.9e12));
  CHECK(gemm("p40") == rate(11.76e12));  // no matrix units: FP32
  CHECK(gemm("apple-m2-10c") == rate(3.579e12));
}

TEST_CASE("Quantized blocks run as INT8, on matrix units or four in a lane", "[architecture]") {
  CHECK(tiles("rtx-3090") == rate(284e12));
  CHECK(tiles("t4-16gb") == rate(130e12));
  CHECK(tiles("rx-7900-xtx") == rate(122.9e12));
  CHECK(tiles("arc-b580") == rate(233e12));
  CHECK(tiles("p40") == rate(4 * 11.76e12));
  CHECK(tiles("rx-6800") == rate(4 * 16.17e12));
  CHECK(tiles("mi50-32gb") == rate(4 * 13.3e12));
  CHECK(tiles("rx-580-8gb") == rate(6.17e12));     // Polaris has no such instruction
  CHECK(tiles("gtx-980") == rate(4.981e12));       // nor Maxwell: dp4a came with Pascal
  CHECK(tiles("apple-m2-10c") == rate(3.579e12));  // nor has Apple: as floats
}

TEST_CASE("Lanes that nothing is known of run quantized blocks as floats", "[architecture]") {
  GpuPart part = gpu("p40");
  part.architecture = "never-heard-of";
  CHECK(tile_rate(part).value.value == rate(11.76e12));
}

TEST_CASE("An assumed rate is no published one: kinds go along", "[architecture]") {
  GpuPart part = gpu("p40");
  part.fp32->kind = SourceKind::kMeasured;
  CHECK(tile_rate(part).kind == SourceKind::kMeasured);
  CHECK(gemm_rate(part).kind == SourceKind::kMeasured);
}
