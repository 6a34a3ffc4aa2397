#include "core/hardware/cpu_architecture.hpp"

#include <algorithm>
#include <utility>

namespace rigcast {
namespace {

// Without dot products, pairs of bytes are multiplied into 16 bits and widened by a second
// instruction, which serves two products of few-bit blocks.
constexpr double kStepsWithout = 1.5;

// SIMD levels that multiply four bytes and sum them in one instruction.
bool has_dot_product(std::string_view simd) {
  constexpr std::string_view kWith[] = {"avx-vnni",     "avx512-vnni", "amx",
                                        "neon-dotprod", "neon-i8mm",   "sve"};
  return std::ranges::find(kWith, simd) != std::end(kWith);
}

// A core of no known design: the usual one of its SIMD level and vendor.
CpuArchitecture default_of(const CpuPart& part) {
  const std::string_view simd = part.simd;
  const int units = part.vendor == "amd" || part.name.starts_with("AMD") ? 4 : 3;
  if (simd == "scalar") return {"", 1, 1, 1};
  if (simd == "amx") return {"", 2, units, 64};
  if (simd.starts_with("avx") && simd != "avx") return {"", 2, units, 32};
  if (simd.starts_with("neon-") || simd == "sve") return {"", 2, 2, 16};
  return {"", 1, simd.starts_with("neon") ? 1 : units, 16};
}

CpuArchitecture design_of(const CpuPart& part) {
  const CpuArchitecture* known = cpu_architecture(part.architecture);
  return known ? *known : default_of(part);
}

double vector_bytes_per_cycle(const CpuPart& part) {
  const CpuArchitecture core = design_of(part);
  return double(core.multipliers) * core.vector_bytes;
}

}  // namespace

const std::vector<CpuArchitecture>& cpu_architectures() {
  // Ports that multiply vectors of integers, and those that compute with them at all, from the
  // vendors' optimization guides and uops.info. 512-bit units count where the core has the dot
  // products of that width; without them, kernels of quantized blocks are written for 256 bits.
  static const std::vector<CpuArchitecture> all = {
      // Intel
      {"yorkfield", 1, 3, 16},
      {"sandy-bridge", 1, 3, 16},
      {"haswell", 1, 3, 32},
      {"broadwell", 1, 3, 32},
      {"skylake", 2, 3, 32},
      {"kaby-lake", 2, 3, 32},
      {"coffee-lake", 2, 3, 32},
      {"comet-lake", 2, 3, 32},
      {"skylake-sp", 2, 3, 32},
      {"cascade-lake", 2, 3, 64},
      {"skylake-x", 2, 3, 64},
      {"rocket-lake", 1, 3, 64},
      {"sapphire-rapids", 2, 3, 64},
      {"granite-rapids", 2, 3, 64},
      {"alder-lake", 2, 3, 32},
      {"raptor-lake", 2, 3, 32},
      {"meteor-lake", 2, 3, 32},
      {"arrow-lake", 2, 4, 32},
      {"lunar-lake", 2, 4, 32},
      {"gracemont", 2, 3, 16},
      // AMD: Zen 4 runs 512-bit instructions in two halves.
      {"zen", 2, 4, 16},
      {"zen+", 2, 4, 16},
      {"zen2", 2, 4, 32},
      {"zen3", 2, 4, 32},
      {"zen4", 2, 4, 32},
      {"zen5", 2, 4, 64},
      {"zen5c", 2, 4, 64},
      // Apple
      {"apple-m1", 4, 4, 16},
      {"apple-m2", 4, 4, 16},
      {"apple-m3", 4, 4, 16},
      {"apple-m4", 4, 4, 16},
      {"apple-m5", 4, 4, 16},
      // Arm and its licensees
      {"cortex-a72", 1, 2, 16},
      {"cortex-a76", 2, 2, 16},
      {"cortex-x1", 4, 4, 16},
      {"cortex-a78ae", 2, 2, 16},
      {"cortex-a720", 2, 2, 16},
      {"cortex-x925", 6, 6, 16},
      {"neoverse-n1", 2, 2, 16},
      {"neoverse-v1", 4, 4, 16},
      {"neoverse-v2", 4, 4, 16},
      {"neoverse-v3ae", 2, 4, 16},
      {"ampereone", 2, 2, 16},
      {"oryon", 4, 4, 16},
      // RISC-V without vectors
      {"sifive-p550", 1, 1, 1},
  };
  return all;
}

const CpuArchitecture* cpu_architecture(std::string_view name) {
  const auto& all = cpu_architectures();
  const auto it = std::ranges::find(all, name, &CpuArchitecture::name);
  return it == all.end() ? nullptr : &*it;
}

bool has_slow_host(const CpuPart& part) {
  constexpr std::string_view kFast[] = {"intel", "amd", "apple", "nvidia", "qualcomm"};
  return std::ranges::find(kFast, part.vendor) == std::end(kFast);
}

std::string_view included_simd(std::string_view simd) {
  constexpr std::pair<std::string_view, std::string_view> kIncluded[] = {
      {"avx", "sse4"},          {"avx2", "avx"},
      {"avx-vnni", "avx2"},     {"avx512", "avx2"},
      {"amx", "avx512-vnni"},   {"avx512-vnni", "avx512"},
      {"neon-dotprod", "neon"}, {"neon-i8mm", "neon-dotprod"},
      {"sve", "neon-dotprod"}};
  const auto found =
      std::ranges::find(kIncluded, simd, [](const auto& pair) { return pair.first; });
  return found == std::end(kIncluded) ? std::string_view() : found->second;
}

double int8_steps(std::string_view simd) {
  return has_dot_product(simd) || simd == "scalar" ? 1.0 : kStepsWithout;
}

double int8_flops_per_cycle(const CpuPart& part) {
  return 2.0 * vector_bytes_per_cycle(part) / int8_steps(part.simd);
}

double int8_flops_per_cycle(const CpuPart& part, double widest_bytes) {
  return 2.0 * design_of(part).multipliers * widest_bytes;
}

double units_per_multiplier(const CpuPart& part) {
  const CpuArchitecture core = design_of(part);
  return double(core.units) / core.multipliers;
}

double fp32_flops_per_cycle(const CpuPart& part) {
  return 2.0 * std::max(1.0, vector_bytes_per_cycle(part) / 4.0);
}

}  // namespace rigcast
