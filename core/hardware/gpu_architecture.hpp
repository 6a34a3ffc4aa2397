#pragma once
// Facts of GPU generations that a cost model needs beside a part's own figures.

#include <string_view>
#include <vector>

#include "core/hardware/rig.hpp"

namespace rigcast {

struct GpuArchitecture {
  std::string_view name;       // as in hwprofiles/gpus, "ampere"
  std::string_view neighbour;  // whose kernels are most alike; empty: none comes before it
  int lanes = 128;             // FP32 lanes of one unit (SM, CU, core)
  bool int8_dot = true;        // four 8-bit products in one lane's instruction
  bool graphs = true;          // runtimes capture a token's kernels in a CUDA graph
  int last_cuda = 0;           // the last major CUDA toolkit that compiles for it; 0: the newest
  bool int8_units = true;      // if there are matrix units, they multiply bytes, too
  bool dual_issue = false;     // its FP32 rate counts two instructions of a lane in a cycle
  bool fp8_units = false;      // matrix units multiply floats of 8 bits, at twice the rate of 16
  bool fp4_units = false;      // and of 4 bits, at four times that rate
};

/// All known architectures, each after its predecessor.
const std::vector<GpuArchitecture>& gpu_architectures();
/// nullptr if there is no such architecture.
const GpuArchitecture* gpu_architecture(std::string_view name);

/// Cycles that all units of the part run in a second: FP32 rate over what one unit's lanes do in a
/// cycle (a multiply and an add each). Without an FP32 rate, assumed from the bandwidth.
Hertz unit_rate(const GpuPart& part);

/// The rate of prefill's float products: FP16 with FP16 accumulation where the part has its own
/// rate for that, else with FP32 accumulation, else FP32, else assumed from the bandwidth.
Sourced<FlopsPerSecond> gemm_rate(const GpuPart& part);

/// The rate of 8-bit dot products on FP32 lanes, four products and sums each; never two of them in
/// a cycle of a lane. Source: AMD "RDNA3 Instruction Set Architecture", the opcodes of VOPD.
/// Requires an FP32 rate.
Sourced<FlopsPerSecond> dot_rate(const GpuPart& part);

/// The rate of prefill's quantized products: INT8 matrix units, else INT8 dot products on FP32
/// lanes, else as floats.
Sourced<FlopsPerSecond> tile_rate(const GpuPart& part);

}  // namespace rigcast
