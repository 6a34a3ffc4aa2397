// A probe writes figures of GPUs that forecasts read.
#include "probe/gpu_rig.hpp"

#include <string>

#include "core/catalogue/catalogue.hpp"
#include "core/catalogue/gpu_measured.hpp"
#include "core/scenario/scenario.hpp"
#include "probe/machine.hpp"
#include "tests/catch.hpp"
#include "tests/folder.hpp"
#include "tests/paths.hpp"

using namespace rigcast;
using probe::CopyCurve;
using probe::Gpu;
using probe::Samples;

namespace {

CopyCurve curve(double bytes_per_s) {
  CopyCurve c;
  c.points = {{4096, {9e-6, 0.1, 7}}, {16384, {1e-5, 0.1, 7}}};
  c.latency_s = {8.5e-6, 0.05, 7};
  c.bytes_per_s = {bytes_per_s, 0.01, 7};
  return c;
}

Gpu gpu(const std::string& name = "NVIDIA GeForce RTX 3060") {
  Gpu g;
  g.name = name;
  g.bus_id = "0000:01:00.0";
  g.memory = 12_GiB - 32_MiB;
  g.context = {300.0 * (1 << 20), 0, 3};
  g.start = {0.25, 0, 3};
  g.used_by_others = 500_MiB;
  g.link = {{3, 16}, {4, 16}, {3, 16}};
  g.copies = {curve(12.5e9), curve(13e9), curve(6e9)};
  g.vram_read = {331e9, 0.01, 7};
  return g;
}

probe::Machine machine(std::vector<Gpu> gpus) {
  probe::Machine m;
  m.date = "2026-01-31";
  m.host.cpu = "AMD Ryzen 5 5600X 6-Core Processor";
  m.host.simd = "avx2";
  m.host.os = "linux";
  m.host.cores = 6;
  m.host.memory = 32_GiB;
  m.host.available = 30_GiB;
  m.dram = {{20e9, 0.02, 7}, {45e9, 0.01, 7}};
  m.cpu = {{900e9, 0.01, 7}, {450e9, 0.01, 7}, {}, {}};
  m.disk.sequential = {3.5e9, 0.05, 5};
  m.disk.page_cache = {9e9, 0.05, 5};
  m.gpus.found = std::move(gpus);
  return m;
}

Scenario forecast_on(const std::string& rig, const std::string& more = "") {
  const test::Folder folder;
  const std::string file = folder.write("rig.toml", rig);
  const auto document = TomlDocument::parse(
      "[rig]\nname = \"" + file + "\"\n" + more + "[model]\nname = \"llama-3.2-1b\"\n", "s.toml");
  REQUIRE(document.ok());
  auto scenario = make_scenario(*document, Catalogue{test::source_dir()});
  if (!scenario) FAIL(scenario.error().text() << "\n" << rig);
  return *std::move(scenario);
}

bool is_warned(const Scenario& s, const std::string& text) {
  return std::ranges::any_of(
      s.warnings, [&](const std::string& w) { return w.find(text) != std::string::npos; });
}

}  // namespace

TEST_CASE("A probed GPU is a part of the catalogue with measured figures", "[probe]") {
  const auto m = machine({gpu()});
  const Scenario s = forecast_on(probe::rig_toml(m, "ryzen-5-5600x", {"rtx-3060-12gb"}));
  REQUIRE(s.rig.gpus.size() == 1);
  const GpuPart& part = s.rig.gpus[0];
  CHECK(part.id == "rtx-3060-12gb");
  CHECK(part.memory.value == 12_GiB - 32_MiB);
  CHECK(part.bandwidth.value.value == Approx(331e9));
  CHECK(part.bandwidth.kind == SourceKind::kMeasured);
  const HostLink& link = s.rig.links.at(0);
  CHECK(text(link.pcie) == "3x16");
  CHECK(link.h2d.value.value == Approx(12.5e9));
  CHECK(link.d2h.value.value == Approx(13e9));
  CHECK(link.pageable.value.value == Approx(6e9));
  CHECK(link.latency.value.value == Approx(8.5e-6));
  CHECK(s.rig.gpu_context.value == 300_MiB);
  REQUIRE(s.rig.gpu_start);
  CHECK(s.rig.gpu_start->value == Seconds{0.25});
  CHECK(s.rig.vram_reserved.value == 500_MiB);
  CHECK(s.rig.usable_vram(0) == 12_GiB - 532_MiB);
  CHECK_FALSE(is_warned(s, "measured on"));
}

TEST_CASE("A CPU that the catalogue lacks is what the probe tells of it", "[probe]") {
  auto m = machine({gpu()});
  m.host.cpu = "AMD Unheard 9999 6-Core Processor";
  const std::string rig = probe::rig_toml(m, "", {"rtx-3060-12gb"});
  CHECK(rig.find("\ncpu = ") == std::string::npos);
  const Scenario s = forecast_on(rig);
  CHECK(s.rig.cpu.name == m.host.cpu);
  CHECK(s.rig.cpu.vendor == "amd");
  CHECK(s.rig.cpu.simd == "avx2");
  CHECK(s.rig.cpu.cores == 6);
  CHECK(s.rig.cpu.architecture.empty());
  REQUIRE(s.rig.cpu.int8_rate);
  CHECK(s.rig.cpu.int8_rate->value.value == Approx(900e9));
  REQUIRE(s.rig.cpu.clock);  // this probe has none
  CHECK(s.rig.cpu.clock->kind == SourceKind::kAssumed);
  CHECK(is_warned(s, "the catalogue has no AMD Unheard 9999"));
  CHECK_FALSE(is_warned(s, "no CPU given"));
  CHECK_FALSE(is_warned(s, "no RAM given"));
}

TEST_CASE("Figures that earlier probes took besides do no harm", "[probe]") {
  const std::string now = probe::rig_toml(machine({gpu()}), "ryzen-5-5600x", {"rtx-3060-12gb"});
  const std::string before = now + R"(
vram_copy = "320 GB/s"
pcie_both = "20 GB/s"
launch = { value = "2.5 us", n = 7, spread = 0.1, kind = "measured", source = "a row" }
launch_in_graph = "1.5 us"
launch_waited = "7 us"
handoff = "2.25 us"
[[gpu_measured.copies]]
direction = "h2d"
memory = "pinned"
kib = [4, 16]
us = [9, 10]
[[gpu_measured.products]]
type = "f16"
rows = 4096
columns = 14336
tokens = [1, 4096]
gflop_per_s = [300, 24000]
)";
  const Scenario a = forecast_on(now), b = forecast_on(before);
  CHECK(a.rig.gpus.at(0).bandwidth.value == b.rig.gpus.at(0).bandwidth.value);
  CHECK(a.rig.links.at(0).h2d.value == b.rig.links.at(0).h2d.value);
  CHECK(a.warnings == b.warnings);
}

TEST_CASE("Each GPU keeps its own figures", "[probe]") {
  Gpu slow = gpu();
  slow.vram_read.median = 250e9;
  slow.copies.h2d_pinned.bytes_per_s.median = 3e9;
  slow.context.median = 350.0 * (1 << 20);
  Gpu large = gpu("NVIDIA GeForce RTX 3090");
  large.memory = 24_GiB;
  large.vram_read.median = 860e9;
  const auto m = machine({gpu(), large, slow});
  const Scenario s = forecast_on(
      probe::rig_toml(m, "ryzen-5-5600x", {"rtx-3060-12gb", "rtx-3090", "rtx-3060-12gb"}));
  REQUIRE(s.rig.gpus.size() == 3);
  CHECK(s.rig.gpus[0].bandwidth.value.value == Approx(331e9));
  CHECK(s.rig.gpus[1].bandwidth.value.value == Approx(860e9));
  CHECK(s.rig.gpus[1].memory.value == 24_GiB);
  CHECK(s.rig.gpus[2].bandwidth.value.value == Approx(250e9));
  CHECK(s.rig.links[2].h2d.value.value == Approx(3e9));
  CHECK(s.rig.links[2].pageable.value.value == Approx(3e9));  // never more than pinned
  CHECK(s.rig.gpu_context.value == 350_MiB);
}

TEST_CASE("A GPU that the catalogue lacks is said and not listed", "[probe]") {
  const auto m = machine({gpu("NVIDIA Unheard \"of\""), gpu()});
  const std::string rig = probe::rig_toml(m, "ryzen-5-5600x", {"", "rtx-3060-12gb"});
  CHECK(rig.find("# The catalogue has no GPU") != std::string::npos);
  CHECK(rig.find("rigcast list gpus") != std::string::npos);
  const Scenario s = forecast_on(rig);
  REQUIRE(s.rig.gpus.size() == 1);
  CHECK(s.rig.gpus[0].bandwidth.value.value == Approx(331e9));
  CHECK(is_warned(s, "figures measured on \"NVIDIA Unheard of\" are not used"));
}

TEST_CASE("Figures of a GPU that was replaced are left out, and stated ones win", "[probe]") {
  const auto rig = probe::rig_toml(machine({gpu()}), "ryzen-5-5600x", {"rtx-3060-12gb"});
  const Scenario other = forecast_on(rig, "gpu = \"rtx-3090\"\n");
  CHECK(other.rig.gpus.at(0).bandwidth.kind == SourceKind::kSpec);
  CHECK(other.rig.links.at(0).h2d.kind != SourceKind::kMeasured);
  CHECK(is_warned(other, "figures measured on \"rtx-3060-12gb\" are not used"));
  const Scenario stated = forecast_on(rig, "vram_bandwidth = \"300 GB/s\"\n");
  CHECK(stated.rig.gpus.at(0).bandwidth.value == 300_GBps);
}

TEST_CASE("Mistakes in a table of measured figures are errors", "[probe]") {
  const auto error_of = [](const std::string& table) {
    const auto document = TomlDocument::parse("[[gpu_measured]]\n" + table, "rig.toml");
    REQUIRE(document.ok());
    for (const TomlTable& t : document->root().tables("gpu_measured")) read_gpu_measured(t);
    return document->error() ? document->error()->text() : "";
  };
  CHECK(error_of("gpu = \"rtx-3060-12gb\"\n").empty());
  CHECK_FALSE(error_of("").empty());
  CHECK(error_of("gpu = \"x\"\npcie_latenc = \"2 us\"\n").find("pcie_latency") !=
        std::string::npos);
  CHECK_FALSE(error_of("gpu = \"x\"\npcie_latency = \"2 GB/s\"\n").empty());
  CHECK_FALSE(error_of("gpu = \"x\"\npcie_latency = \"2 s\"\n").empty());
}

TEST_CASE("What is wrong with a GPU's figures is said with what to do", "[probe]") {
  Gpu g = gpu();
  g.link.now = g.link.card;
  CHECK(probe::gpu_quality_warnings(g).empty());
  g.vram_read.spread = 0.4;
  g.notes = {"copies not measured: too little of the host's memory is free"};
  g.link.now = {3, 16};
  g.used_by_others = 2_GiB;
  const auto quality_warnings = probe::gpu_quality_warnings(g);
  REQUIRE(quality_warnings.size() == 4);
  CHECK(quality_warnings[0].find("copies not measured") != std::string::npos);
  CHECK(quality_warnings[1].find("PCI-E 3x16, the card can do 4x16") != std::string::npos);
  CHECK(quality_warnings[2].find("others use 2.00 GiB of its memory") != std::string::npos);
  CHECK(quality_warnings[3].find("VRAM reads varied by 40 %") != std::string::npos);
  const auto m = machine({g});
  CHECK(probe::quality_warnings(m).back().find("GPU 0: VRAM reads varied") == 0);
}

TEST_CASE("Without the driver's library what others use is counted once", "[probe]") {
  Gpu g = gpu();
  g.used_by_others.reset();
  g.context = {900.0 * (1 << 20), 0, 1};
  const Scenario s = forecast_on(probe::rig_toml(machine({g}), "ryzen-5-5600x", {"rtx-3060-12gb"}));
  CHECK(s.rig.gpu_context.value == 900_MiB);
  CHECK(s.rig.vram_reserved.value == 0_MiB);
}

TEST_CASE("A GPU without room for a context is as full as the driver tells", "[probe]") {
  Gpu full = gpu();
  full.context = {};
  full.used_by_others = 11_GiB;
  const Scenario s = forecast_on(
      probe::rig_toml(machine({gpu(), full}), "ryzen-5-5600x", {"rtx-3060-12gb", "rtx-3060-12gb"}));
  CHECK(s.rig.gpu_context.value == 300_MiB);
  CHECK(s.rig.vram_reserved.value == 11_GiB);
}

TEST_CASE("Figures that could not be taken are left to the catalogue", "[probe]") {
  Gpu bare;
  bare.name = "NVIDIA GeForce RTX 3060";
  const Scenario s =
      forecast_on(probe::rig_toml(machine({bare}), "ryzen-5-5600x", {"rtx-3060-12gb"}));
  CHECK(s.rig.gpus.at(0).bandwidth.kind == SourceKind::kSpec);
  CHECK(s.rig.gpus.at(0).memory.value == 12_GiB);
  CHECK(s.rig.links.at(0).h2d.kind != SourceKind::kMeasured);
  CHECK(s.rig.gpu_context.kind == SourceKind::kAssumed);
}
