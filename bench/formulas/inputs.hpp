#pragma once
// Inputs that both tools need of a machine and a model, from a scenario. Neither knows layers,
// exact bytes or block formats: they use a parameter count, a row of a quant table, and the place
// of the weights.

#include <optional>
#include <string_view>

#include "core/scenario/scenario.hpp"

namespace rigcast::formulas {

/// A row of a tool's quant table. The tools list one mix for each number of bits ("Q4_K_M"); a mix
/// that is not listed uses the row of its bits, as their users would.
enum class QuantRow { kF16, kQ8, kQ6, kQ5, kQ4, kQ3, kQ2, kMxfp4 };
inline constexpr int kQuantRowCount = 8;

/// The row of a quant; nullopt if the tools have none: F32, one bit, ternary.
std::optional<QuantRow> quant_row(std::string_view quant);

/// Parameters in 10^9, including embeddings, as most publishers count; draft blocks are excluded.
/// The tools use the published active count where they know it: for gpt-oss-120b that is 5.1, here
/// it is 5.7.
struct ParameterCount {
  double total = 0;
  double active = 0;  // for one token: experts_used of the routed experts
};
ParameterCount parameter_count(const Scenario& scenario);

/// True if decode uses no GPU: there is none, no layer is on it, or it is used only for prefill.
bool decodes_on_cpu(const Scenario& scenario);

/// The share on GPUs of the weights that decode reads; nullopt if the scenario leaves that open.
std::optional<double> placed_gpu_share(const Scenario& scenario);

/// VRAM of all GPUs, in GiB: the "GB" of both tools comes from nvidia-smi's MiB.
double vram_gib(const Rig& rig);

/// The card whose bandwidth both tools use: the one with the most memory. Needs a GPU.
const GpuPart& primary_gpu(const Rig& rig);

inline constexpr double kGiB = 1073741824.0;
inline constexpr double kGB = 1e9;

}  // namespace rigcast::formulas
