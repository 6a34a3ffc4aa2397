#pragma once
// What both tools ask of a machine and a model, taken from a scenario. Neither knows layers, exact
// bytes or block formats: a parameter count, a row of a quant table, and where the weights are.

#include <optional>
#include <string_view>

#include "core/scenario/scenario.hpp"

namespace rigcast::formulas {

/// A row of a tool's quant table. They list one mix for each number of bits ("Q4_K_M"); a mix that
/// is not listed takes the row of its bits, as their users would.
enum class QuantRow { kF16, kQ8, kQ6, kQ5, kQ4, kQ3, kQ2, kMxfp4 };
inline constexpr int kQuantRowCount = 8;

/// nullopt where the tools have no row: F32, one bit, ternary.
std::optional<QuantRow> quant_row(std::string_view quant);

/// In 10^9, embeddings included, as most publishers count; blocks that only draft are not. The
/// tools take the published active count where they know it: gpt-oss-120b is 5.1 there, here 5.7.
struct ParameterCount {
  double total = 0;
  double active = 0;  // for one token: experts_used of the routed experts
};
ParameterCount parameter_count(const Scenario& scenario);

/// Decode uses no GPU: there is none, no layer is on it, or it is for prefill alone.
bool decodes_on_cpu(const Scenario& scenario);

/// The share of the weights that decode reads which the scenario puts on GPUs; nullopt where it
/// leaves that open.
std::optional<double> placed_gpu_share(const Scenario& scenario);

/// Of all GPUs, in GiB: the "GB" of both tools is what nvidia-smi's MiB make.
double vram_gib(const Rig& rig);

/// The card both tools know the bandwidth of: that with the most memory. Needs a GPU.
const GpuPart& primary_gpu(const Rig& rig);

inline constexpr double kGiB = 1073741824.0;
inline constexpr double kGB = 1e9;

}  // namespace rigcast::formulas
