#include "core/hardware/gpu_architecture.hpp"

#include <algorithm>

namespace rigcast {
namespace {

// Parts without any published rate: the low end of their siblings, in FLOP for a byte.
constexpr double kFlopsPerByte = 30.0;
// No part is built with more bandwidth for a unit than this; one that seems so has its FP32 rate
// throttled, not its units.
constexpr double kMaxBytesPerCycle = 40.0;

}  // namespace

const std::vector<GpuArchitecture>& gpu_architectures() {
  static const std::vector<GpuArchitecture> all = {
      // NVIDIA. Lanes: the vendor's architecture papers, FP32 units of one SM. CUDA 12 compiles
      // from
      // capability 5.0 on, CUDA 13 from 7.5 on (release notes of both).
      {"ampere", "", 128},
      {.name = "ada", .neighbour = "ampere", .fp8_units = true},
      {.name = "blackwell", .neighbour = "ada", .fp8_units = true, .fp4_units = true},
      {"ampere-dc", "ampere", 64},
      {.name = "hopper", .neighbour = "ampere-dc", .fp8_units = true},
      {.name = "blackwell-dc", .neighbour = "hopper", .fp8_units = true, .fp4_units = true},
      {"turing", "ampere", 64, true, false},
      {.name = "volta",
       .neighbour = "turing",
       .lanes = 64,
       .graphs = false,
       .last_cuda = 12,
       .int8_units = false},
      {"pascal", "turing", 128, true, false, 12},
      {"pascal-dc", "pascal", 64, false, false, 12},
      {"maxwell", "pascal", 128, false, false, 12},
      {"kepler", "maxwell", 192, false, false, 11},
      // Apple. Lanes: 128 ALUs of a GPU core.
      {"apple-m2", "", 128},
      {"apple-m1", "apple-m2", 128},
      {"apple-m3", "apple-m2", 128},
      {"apple-m4", "apple-m3", 128},
      {"apple-m5", "apple-m4", 128},
      // AMD. Data sheets count dual issue: 64 lanes twice.
      {.name = "rdna3", .neighbour = "", .dual_issue = true},
      {"rdna2", "rdna3", 64},
      {"rdna1", "rdna2", 64, false},
      {.name = "rdna3.5", .neighbour = "rdna3", .dual_issue = true},
      {.name = "rdna4", .neighbour = "rdna3", .dual_issue = true, .fp8_units = true},
      {"vega", "rdna1", 64},
      {"polaris", "vega", 64, false},
      {"cdna1", "vega", 64},
      {"cdna2", "cdna1", 64},  // data sheets' vector FP32; packed, it is twice that
      {.name = "cdna3", .neighbour = "cdna2", .dual_issue = true, .fp8_units = true},
      {.name = "cdna4",
       .neighbour = "cdna3",
       .dual_issue = true,
       .fp8_units = true,
       .fp4_units = true},
      // Intel. Lanes: 8 vector engines of 16 lanes in an Xe core.
      {"battlemage", "", 128},
      {"alchemist", "battlemage", 128},
      // Qualcomm. Lanes: 1,536 ALUs in six shader processors; no source tells of 8-bit products.
      {"adreno-x1", "", 256, false},
  };
  return all;
}

const GpuArchitecture* gpu_architecture(std::string_view name) {
  const auto& all = gpu_architectures();
  const auto it = std::ranges::find(all, name, &GpuArchitecture::name);
  return it == all.end() ? nullptr : &*it;
}

Hertz unit_rate(const GpuPart& part) {
  const GpuArchitecture* known = gpu_architecture(part.architecture);
  const double lanes = known ? known->lanes : 128;
  const double fp32 =
      part.fp32 ? part.fp32->value.value : kFlopsPerByte * part.bandwidth.value.value;
  return Hertz{std::max(fp32 / (2.0 * lanes), part.bandwidth.value.value / kMaxBytesPerCycle)};
}

Sourced<FlopsPerSecond> gemm_rate(const GpuPart& part) {
  if (part.fp16_tensor_fp16acc) return *part.fp16_tensor_fp16acc;
  if (part.fp16_tensor) return *part.fp16_tensor;
  if (part.fp32) return *part.fp32;
  return {FlopsPerSecond{kFlopsPerByte * part.bandwidth.value.value}, SourceKind::kAssumed,
          "no compute rate in the catalogue"};
}

Sourced<FlopsPerSecond> dot_rate(const GpuPart& part) {
  const GpuArchitecture* known = gpu_architecture(part.architecture);
  const double products = known && known->dual_issue ? 2.0 : 4.0;
  return {part.fp32->value * products, part.fp32->kind, "four INT8 products in a lane"};
}

Sourced<FlopsPerSecond> tile_rate(const GpuPart& part) {
  if (part.int8_tensor) return *part.int8_tensor;
  const GpuArchitecture* known = gpu_architecture(part.architecture);
  const bool dots = !part.fp16_tensor && part.fp32 && known && known->int8_dot;
  return dots ? dot_rate(part) : gemm_rate(part);
}

}  // namespace rigcast
