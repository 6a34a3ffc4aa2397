#include "probe/detect/detected_rig.hpp"

#include <fstream>
#include <sstream>

#include "core/catalogue/compose_rig.hpp"
#include "core/scenario/scenario.hpp"
#include "probe/detect/detect_gpus.hpp"
#include "probe/detect/detect_memory.hpp"
#include "probe/host.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"

using namespace rigcast;
using namespace rigcast::probe;
namespace fs = std::filesystem;

namespace {

const fs::path kCaptures = fs::path(test::source_dir()) / "tests" / "data" / "detect";

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

System captured(const char* machine) {
  const fs::path root = kCaptures / machine;
  return {root, [root](const std::vector<std::string>& words) {
            const std::string text = text_of(root / "commands" / (words[0] + ".txt"));
            return words[0] == "sysctl" ? value_in(text, words.at(2)) : text;
          }};
}

const Catalogue& catalogue() {
  static const Catalogue shipped{test::source_dir()};
  return shipped;
}

Scenario detected(const char* machine) {
  const System system = captured(machine);
  const auto text = detected_rig(catalogue(), system);
  REQUIRE(text.ok());
  INFO(*text);
  Catalogue here = catalogue();
  here.read_this_machine_with([&](const Catalogue&) { return text; });
  auto document =
      TomlDocument::parse("rig.name = \"this\"\nmodel.name = \"llama-3.2-1b\"\n", "test");
  REQUIRE(document.ok());
  const auto scenario = make_scenario(*document, here);
  INFO((scenario ? "" : scenario.error().text()));
  REQUIRE(scenario.ok());
  return *scenario;
}

bool has_note(const Rig& rig, const std::string& part) {
  for (const std::string& note : rig.notes)
    if (note.find(part) != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("NVIDIA cards are told by nvidia-smi, with their slots", "[probe][detect]") {
  const Rig rig = detected("linux-nvidia").rig;
  REQUIRE(rig.gpus.size() == 2);
  CHECK(rig.gpus[0].id == "rtx-3090");
  CHECK(rig.gpus[1].id == "rtx-3060-12gb");  // the size tells it from the card of 8 GB
  CHECK(text(rig.links[0].pcie) == "4x8");
  CHECK(text(rig.links[1].pcie) == "3x4");
  CHECK(rig.cpu.id == "ryzen-9-5950x");
  CHECK(rig.cpu.cores == 16);
  CHECK(rig.ssd.id == "samsung-990-pro");
  CHECK(rig.os == OperatingSystem::kLinux);
  CHECK(rig.ram.capacity.value == Bytes{64234.0 * 0x1p20});  // 65,776,000 KiB, to a MiB
  CHECK(rig.ram.capacity.kind == SourceKind::kSpec);
  // Two modules at 3,200 MT/s, as configured, on the CPU's two channels of 8 bytes.
  CHECK(rig.ram.bandwidth.value == BytesPerSecond{51.2e9});
  CHECK(rig.ram.bandwidth.kind == SourceKind::kSpec);
}

TEST_CASE("A chip that is sold as several cards is told by its memory", "[probe][detect]") {
  const Rig rig = detected("linux-amd").rig;
  REQUIRE(rig.gpus.size() == 1);
  CHECK(rig.gpus[0].id == "rx-7900-xtx");
  CHECK(text(rig.links[0].pcie) == "4x16");
  CHECK(rig.cpu.id == "ryzen-7-7700x");
  CHECK(rig.ssd.id == "sata-ssd");  // no such part in the catalogue: what any of its kind reads
  CHECK(rig.ram.bandwidth.kind == SourceKind::kAssumed);
  CHECK(rig.ram.bandwidth.value == rig.cpu.memory_bandwidth->value);
  CHECK(has_note(rig, "Assumed: memory of 2 x ddr5-5200"));
}

TEST_CASE("A chip with the machine's memory brings its CPU and pool", "[probe][detect]") {
  const Rig rig = detected("linux-strix-halo").rig;
  REQUIRE(rig.unified());
  CHECK(rig.gpus[0].id == "strix-halo-128gb");
  // The system's memory and what the firmware sets aside for the GPU are one pool.
  CHECK(rig.ram.capacity.value.value == Approx(131000000.0 * 1024 + 536870912).epsilon(1e-5));
}

TEST_CASE("A GPU that the catalogue lacks is named and left out", "[probe][detect]") {
  const Rig rig = detected("linux-intel").rig;
  REQUIRE(rig.gpus.size() == 1);
  CHECK(rig.gpus[0].id == "arc-b580");
  CHECK(has_note(rig, "Iris Graphics 540 is left out"));
  CHECK(rig.cpu.id == "core-i7-8700");
  CHECK(rig.ssd.id == "hdd-7200");
}

TEST_CASE("WSL2 is told by its kernel, and has a part of the memory", "[probe][detect]") {
  const Rig rig = detected("wsl2").rig;
  CHECK(rig.os == OperatingSystem::kWsl2);
  REQUIRE(rig.gpus.size() == 1);
  CHECK(rig.gpus[0].id == "rtx-4070-12gb");
  CHECK(rig.cpu.id == "core-i5-13400f");
  CHECK(has_note(rig, ".wslconfig"));
}

TEST_CASE("A Mac is told by sysctl and system_profiler", "[probe][detect]") {
  const Rig rig = detected("macos").rig;
  REQUIRE(rig.unified());
  CHECK(rig.gpus[0].id == "apple-m4-pro-20c");
  CHECK(rig.cpu.id == "apple-m4-pro");
  CHECK(rig.os == OperatingSystem::kMacos);
  CHECK(rig.ram.capacity.value == 48_GiB);
}

TEST_CASE("No detected figure claims to be measured", "[probe][detect]") {
  for (const char* machine :
       {"linux-nvidia", "linux-amd", "linux-strix-halo", "linux-intel", "wsl2", "macos"}) {
    const auto rig = detected_rig(catalogue(), captured(machine));
    REQUIRE(rig.ok());
    CHECK(rig->find("\"measured\"") == std::string::npos);
    CHECK(has_note(detected(machine).rig, "this machine, as the system tells it"));
  }
}

TEST_CASE("A system that tells nothing is refused", "[probe][detect]") {
  const auto rig = detected_rig(catalogue(), captured("no-such-machine"));
  REQUIRE(!rig.ok());
  CHECK(rig.error().hint.find("--gpu") != std::string::npos);
}

TEST_CASE("This machine is a rig", "[probe][detect]") {
  const auto text = detected_rig(catalogue());
  REQUIRE(text.ok());
  const auto document = TomlDocument::parse(*text, "this machine");
  REQUIRE(document.ok());
  std::vector<std::string> warnings;
  const Rig rig = compose_rig(document->root(), catalogue(), warnings);
  CHECK(!document->error());
  CHECK(rig.cpu.cores <= read_host().cores);
  CHECK(rig.ram.capacity.value.value == Approx(read_host().memory.value).epsilon(1e-3));
}

TEST_CASE("Empty slots of the board are no modules", "[probe][detect]") {
  const auto modules =
      modules_of(text_of(kCaptures / "linux-nvidia" / "commands" / "dmidecode.txt"));
  REQUIRE(modules);
  CHECK(modules->count == 2);
  CHECK(modules->type == "ddr4");
  CHECK(modules->mega_transfers == 3200);
  CHECK(!modules_of("# dmidecode 3.3\n/dev/mem: Permission denied\n"));
  CHECK(!modules_of(""));
}

TEST_CASE("Instruction sets are those that the kernel lists", "[probe][detect]") {
  CHECK(read_host(kCaptures / "linux-amd").simd == "avx512-vnni");
  CHECK(read_host(kCaptures / "linux-nvidia").simd == "avx2");
  CHECK(read_host(kCaptures / "wsl2").simd == "avx-vnni");
  CHECK(read_host(kCaptures / "linux-nvidia").cores == 16);
}
