#include "core/hardware/cpu_architecture.hpp"

#include <set>
#include <string>

#include "tests/catch.hpp"
#include "tests/core/catalogue_fixture.hpp"

using namespace rigcast;
using fixtures::catalogue;

namespace {

CpuPart core(const std::string& architecture, const std::string& simd) {
  CpuPart part;
  part.architecture = architecture;
  part.simd = simd;
  return part;
}

double int8(const std::string& architecture, const std::string& simd) {
  return int8_flops_per_cycle(core(architecture, simd));
}

double fp32(const std::string& architecture, const std::string& simd) {
  return fp32_flops_per_cycle(core(architecture, simd));
}

}  // namespace

TEST_CASE("Every CPU architecture stands in the table once, with units that exist",
          "[architecture]") {
  std::set<std::string_view> before;
  for (const CpuArchitecture& a : cpu_architectures()) {
    INFO(a.name);
    CHECK(before.insert(a.name).second);
    CHECK(cpu_architecture(a.name) == &a);
    CHECK(a.multipliers >= 1);
    CHECK(a.units >= a.multipliers);
    CHECK(a.units <= 6);
    CHECK((a.vector_bytes == 1 || a.vector_bytes == 16 || a.vector_bytes == 32 ||
           a.vector_bytes == 64));
  }
  CHECK(cpu_architecture("") == nullptr);
  CHECK(cpu_architecture("Zen4") == nullptr);
}

TEST_CASE("Every CPU of the catalogue has an architecture that is known", "[architecture]") {
  std::set<std::string> used;
  for (const std::string& id : catalogue().ids("hwprofiles/cpus")) {
    const auto part = catalogue().cpu(id);
    REQUIRE(part);
    INFO(id << ": " << part->architecture);
    CHECK(cpu_architecture(part->architecture) != nullptr);
    used.insert(part->architecture);
  }
  for (const CpuArchitecture& a : cpu_architectures()) {
    INFO(a.name);
    CHECK(used.contains(std::string(a.name)));
  }
}

TEST_CASE("No CPU has wider vectors than its instructions", "[architecture]") {
  for (const std::string& id : catalogue().ids("hwprofiles/cpus")) {
    const auto part = catalogue().cpu(id);
    REQUIRE(part);
    const CpuArchitecture* known = cpu_architecture(part->architecture);
    REQUIRE(known);
    INFO(id << ": " << part->architecture << " with " << part->simd);
    const bool wide = part->simd.starts_with("avx512") || part->simd == "amx";
    const bool middle = part->simd == "avx2" || part->simd == "avx-vnni";
    CHECK(known->vector_bytes <= (wide ? 64 : middle ? 32 : 16));
  }
}

TEST_CASE("A core does two INT8 FLOPs on every byte of its multipliers in a cycle",
          "[architecture]") {
  CHECK(int8("zen4", "avx512-vnni") == 2 * 2 * 32);  // in two halves
  CHECK(int8("zen5", "avx512-vnni") == 2 * 2 * 64);
  CHECK(int8("sapphire-rapids", "amx") == 2 * 2 * 64);
  CHECK(int8("raptor-lake", "avx-vnni") == 2 * 2 * 32);
  CHECK(int8("apple-m2", "neon-i8mm") == 2 * 4 * 16);
  CHECK(int8("oryon", "neon-i8mm") == 2 * 4 * 16);
  CHECK(int8("neoverse-v3ae", "sve") == 2 * 2 * 16);
  CHECK(int8("sifive-p550", "scalar") == 2);
}

TEST_CASE("Without dot products it takes three instructions for the work of two",
          "[architecture]") {
  CHECK(int8("zen3", "avx2") == Approx(2 * 2 * 32 / 1.5));
  CHECK(int8("skylake-sp", "avx512") == Approx(2 * 2 * 32 / 1.5));
  CHECK(int8("sandy-bridge", "avx") == Approx(2 * 16 / 1.5));
  CHECK(int8("cortex-a72", "neon") == Approx(2 * 16 / 1.5));
  CHECK(int8("zen4", "avx2") == Approx(int8("zen4", "avx-vnni") / 1.5));
}

TEST_CASE("A core of no known design is the usual one of its SIMD level", "[architecture]") {
  CHECK(int8("", "amx") == 2 * 2 * 64);
  CHECK(int8("never-heard-of", "avx512-vnni") == 2 * 2 * 32);
  CHECK(int8("never-heard-of", "avx2") == Approx(2 * 2 * 32 / 1.5));
  CHECK(int8("never-heard-of", "neon-dotprod") == 2 * 2 * 16);
  CHECK(int8("never-heard-of", "sve") == 2 * 2 * 16);
  for (const char* simd : {"avx", "sse4", "neon", "rvv", "of the future"}) {
    INFO(simd);
    CHECK(int8("never-heard-of", simd) == Approx(2 * 16 / 1.5));
  }
  CHECK(int8("never-heard-of", "scalar") == 2);
}

TEST_CASE("Cores have vector units that do not multiply", "[architecture]") {
  CHECK(units_per_multiplier(core("sapphire-rapids", "amx")) == 1.5);
  CHECK(units_per_multiplier(core("haswell", "avx2")) == 3);
  CHECK(units_per_multiplier(core("zen5", "avx512-vnni")) == 2);
  CHECK(units_per_multiplier(core("neoverse-n1", "neon-dotprod")) == 1);
  // a core of no known design has those of its vendor, if a name tells it
  CpuPart unknown = core("", "avx512-vnni");
  CHECK(units_per_multiplier(unknown) == 1.5);
  unknown.name = "AMD EPYC";
  CHECK(units_per_multiplier(unknown) == 2);
  unknown.name = "unknown";
  unknown.vendor = "amd";
  CHECK(units_per_multiplier(unknown) == 2);
}

TEST_CASE("FP32 has a quarter of the lanes, and at least one", "[architecture]") {
  CHECK(fp32("zen3", "avx2") == 2 * 2 * 32 / 4);
  CHECK(fp32("zen5", "avx512-vnni") == 2 * 2 * 64 / 4);
  CHECK(fp32("apple-m1", "neon-dotprod") == 2 * 4 * 16 / 4);
  CHECK(fp32("never-heard-of", "avx2") == 2 * 2 * 32 / 4);
  CHECK(fp32("sifive-p550", "scalar") == 2);
}
