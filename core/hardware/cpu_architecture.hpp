#pragma once
// Arithmetic throughput of CPU cores: facts of core designs that a cost model needs in addition to
// a part's figures.

#include <string_view>
#include <vector>

#include "core/hardware/rig.hpp"

namespace rigcast {

struct CpuArchitecture {
  std::string_view name;  // as in hwprofiles/cpus, "zen4"
  int multipliers = 2;    // vector units of a core that multiply integers
  int units = 3;          // vector units that add, shift and mask integers, multipliers among them
  int vector_bytes = 16;  // width of each
};

const std::vector<CpuArchitecture>& cpu_architectures();
/// nullptr if there is no such architecture.
const CpuArchitecture* cpu_architecture(std::string_view name);

/// True for boards and Arm servers, whose cores take longer to launch a GPU's kernels.
bool has_slow_host(const CpuPart& part);

/// The level of SIMD instructions that a core of this level has as well, and the next one below it:
/// "avx2" of "avx-vnni"; "": none.
std::string_view included_simd(std::string_view simd);
/// Steps in which a core of this level multiplies bytes and sums the products: 1 with dot products.
double int8_steps(std::string_view simd);

/// FLOPs of INT8 products that one performance core can do in a cycle, a multiply-add counted as
/// two: its multipliers, with dot-product instructions or, without them, in one and a half steps.
double int8_flops_per_cycle(const CpuPart& part);
/// The same with vectors of so many bytes at most, with dot-product instructions.
double int8_flops_per_cycle(const CpuPart& part, double widest_bytes);
/// Vector units of a core for each of its multipliers.
double units_per_multiplier(const CpuPart& part);
/// FLOPs per cycle of FP32 multiply-adds.
double fp32_flops_per_cycle(const CpuPart& part);

}  // namespace rigcast
