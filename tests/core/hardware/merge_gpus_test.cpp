#include "core/hardware/merge_gpus.hpp"

#include "tests/catch.hpp"

using namespace rigcast;

namespace {

SharedLayers of(int gpus, double microseconds, double gb_per_s) {
  SharedLayers shared;
  shared.gpus = gpus;
  shared.exchange.latency = {Seconds{microseconds * 1e-6}, SourceKind::kAssumed, "a test"};
  shared.exchange.bus = {BytesPerSecond{gb_per_s * 1e9}, SourceKind::kAssumed, "a test"};
  return shared;
}

}  // namespace

TEST_CASE("An all-reduce sends 2 (n - 1) / n of its bytes, a gather half of that", "[shared]") {
  const SharedLayers four = of(4, 5, 100);
  CHECK(all_reduce_time(four, 0_B).value == Approx(5e-6));
  CHECK(all_reduce_time(four, Bytes{1e9}).value == Approx(5e-6 + 0.015));
  CHECK(gather_time(four, Bytes{1e9}).value == Approx(5e-6 + 0.0075));
  CHECK(all_reduce_time(of(1, 5, 100), Bytes{1e9}).value == 0);
}

TEST_CASE("GPUs that share every layer are one with the memory and the rates of all", "[shared]") {
  Rig rig;
  GpuPart gpu;
  gpu.name = "RTX 3090";
  gpu.memory = {24_GiB, SourceKind::kSpec, "a test"};
  gpu.bandwidth = {BytesPerSecond{936e9}, SourceKind::kSpec, "a test"};
  gpu.fp16_tensor = Sourced<FlopsPerSecond>{FlopsPerSecond{71e12}, SourceKind::kSpec, "a test"};
  gpu.units = 82;
  rig.gpus = {gpu, gpu};
  HostLink link;
  link.h2d = {BytesPerSecond{12e9}, SourceKind::kSpec, "a test"};
  rig.links = {link, link};
  rig.vram_reserved = {300_MiB, SourceKind::kAssumed, "a test"};
  merge_gpus(rig, of(2, 5, 10));
  REQUIRE(rig.gpus.size() == 1);
  const GpuPart& both = rig.gpus.front();
  CHECK(both.name == "2 x RTX 3090");
  CHECK(both.memory.value == 48_GiB);
  CHECK(both.bandwidth.value.value == Approx(2 * 936e9));
  CHECK(both.fp16_tensor->value.value == Approx(142e12));
  CHECK(both.units == 164);
  CHECK(both.shared->gpus == 2);
  REQUIRE(rig.links.size() == 1);
  CHECK(rig.links.front().h2d.value.value == Approx(24e9));
  CHECK(rig.vram_reserved.value == 600_MiB);
}
