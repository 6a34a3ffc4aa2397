// A probe writes a rig that forecasts can read.
#include <string>

#include "core/catalogue/catalogue.hpp"
#include "core/scenario/scenario.hpp"
#include "probe/disk.hpp"
#include "probe/dram_read.hpp"
#include "probe/machine.hpp"
#include "tests/catch.hpp"
#include "tests/folder.hpp"
#include "tests/paths.hpp"

using namespace rigcast;
using probe::Samples;

namespace {

probe::Machine machine() {
  probe::Machine m;
  m.date = "2026-01-31";
  m.host.cpu = "A \"quoted\" CPU\\";
  m.host.simd = "avx2";
  m.host.os = "linux";
  m.host.cores = 6;
  m.host.memory = 32_GiB;
  m.host.available = 30_GiB;
  m.dram = {{20e9, 0.02, 7}, {51.2e9, 0.01, 7}};
  m.cpu = {{900e9, 0.01, 7}, {450e9, 0.01, 7}, {3.6e9, 0.01, 7}, {290e9, 0.01, 7}};
  m.disk.sequential = {3.5e9, 0.05, 5};
  m.disk.page_cache = {9e9, 0.05, 5};
  m.disk.cached_map = {120e9, 0.05, 5};
  return m;
}

}  // namespace

TEST_CASE("Figures are the median of their takes, with their spread", "[probe]") {
  const Samples odd = probe::samples_of({3, 1, 2});
  CHECK(odd.median == 2);
  CHECK(odd.spread == 1);
  CHECK(odd.n == 3);
  CHECK(probe::samples_of({1, 4, 2, 3}).median == 2.5);
  CHECK(probe::samples_of({}).n == 0);
}

TEST_CASE("A probed machine is a rig of measured figures", "[probe]") {
  const test::Folder folder;
  const std::string file = folder.write("rig.toml", probe::rig_toml(machine(), "ryzen-5-5600x"));
  const Catalogue catalogue{test::source_dir()};
  const auto document = TomlDocument::parse(
      "[rig]\nname = \"" + file + "\"\n[model]\nname = \"llama-3.2-1b\"\n", "s.toml");
  REQUIRE(document.ok());
  const auto scenario = make_scenario(*document, catalogue);
  if (!scenario) FAIL(scenario.error().text());
  const Rig& rig = scenario->rig;
  CHECK(rig.gpus.empty());
  CHECK(rig.cpu.name == "A quoted CPU");
  CHECK(rig.cpu.cores == 6);
  CHECK(rig.cpu.simd == "avx2");
  CHECK(rig.ram.capacity.value == 32_GiB);
  CHECK(rig.ram_reserved.value == 2_GiB);
  CHECK(rig.ram.bandwidth.value.value == Approx(51.2e9));
  REQUIRE(rig.ssd.cached_map);
  CHECK(rig.ssd.cached_map->value.value == Approx(120e9));
  CHECK(rig.ram.bandwidth.kind == SourceKind::kMeasured);
  CHECK(rig.ssd.sequential_read.value.value == Approx(3.5e9));
  REQUIRE(rig.cpu.int8_rate);
  CHECK(rig.cpu.int8_rate->value.value == Approx(900e9));
  REQUIRE(rig.cpu.core_int8);
  CHECK(rig.cpu.core_int8->value.value == Approx(290e9));
  REQUIRE(rig.cpu.clock);
  CHECK(rig.cpu.clock->value.value == Approx(3.6e9));
  CHECK(rig.cpu.clock->kind == SourceKind::kMeasured);
  CHECK_FALSE(rig.cpu.boost_clock);  // that of the part which stands for it
  REQUIRE(rig.cpu.core_read);
  CHECK(rig.cpu.core_read->value.value == Approx(20e9));
  for (const std::string& warning : scenario->warnings)
    CHECK(
        (warning.find("assumed") == std::string::npos || warning.starts_with("no request given")));
}

TEST_CASE("Figures that vary too much are named", "[probe]") {
  probe::Machine m = machine();
  CHECK(probe::quality_warnings(m).empty());
  m.dram.back().spread = 0.4;
  REQUIRE(probe::quality_warnings(m).size() == 1);
  CHECK(probe::quality_warnings(m)[0].find("memory reads varied by 40 %") != std::string::npos);
}

TEST_CASE("A disk is measured and left as it was", "[probe]") {
  // Not the usual place for temporary files, which may be memory.
  const std::filesystem::path folder = std::filesystem::current_path();
  const auto count = [&] {
    std::size_t files = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++files;
    return files;
  };
  const std::size_t before = count();
  const auto rates = probe::measure_disk(folder, 16_MiB);
  if (!rates) {  // a file system without O_DIRECT
    WARN(rates.error().text());
    return;
  }
  CHECK(rates->sequential.median > 1e6);
  CHECK(rates->mapped.median > 1e6);
  CHECK(rates->page_cache.median > 1e7);
  CHECK(rates->cached_map.median > 1e7);
  CHECK(rates->random.size() == 4);
  for (const probe::RandomReads& r : rates->random) CHECK(r.per_s.median > 10);
  CHECK(count() == before);
}

TEST_CASE("A folder that cannot be written to is said", "[probe]") {
  const auto rates = probe::measure_disk("/nonexistent/folder", 16_MiB);
  REQUIRE_FALSE(rates.ok());
  CHECK(rates.error().text().find("/nonexistent/folder") != std::string::npos);
}

TEST_CASE("This machine tells what it is", "[probe]") {
  const probe::Host host = probe::read_host();
  CHECK(host.cores >= 1);
  CHECK(host.memory > 64_MiB);
  CHECK(host.available <= host.memory);
  CHECK_FALSE(host.simd.empty());
  engine::ThreadTeam team(1);
  CHECK(probe::dram_read(team).median > 1e8);
}
