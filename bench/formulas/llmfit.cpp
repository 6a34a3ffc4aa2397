#include "bench/formulas/llmfit.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "bench/formulas/inputs.hpp"

namespace rigcast::formulas {

namespace {

enum class RunMode { kGpu, kMoeOffload, kCpuOffload, kCpuOnly };

constexpr double kEfficiency = 0.55;
constexpr double kMoeOffloadFactor = 0.8;
constexpr double kCpuOffloadFactor = 0.5;
constexpr double kCpuOnlyFactor = 0.3;
constexpr double kCpuX86 = 70, kCpuArm = 90;  // tokens/s for 10^9 parameters
constexpr double kSlowest = 0.1;              // tokens/s; its lowest forecast
constexpr double kFixedBytes = 3.2;           // per parameter outside the routed experts
constexpr double kFixedBytesGptOss = 1.43;
constexpr double kPressureFrom = 0.60, kPressureFloor = 0.30;
constexpr double kOverheadGb = 0.5;
constexpr TokenCount kContextCap = 8192;  // default context

// The tool has two tables of bytes per parameter: for speed, and for memory and experts.
struct QuantFactors {
  double speed_bytes;
  double memory_bytes;
  double cpu_factor;
};
constexpr std::array<QuantFactors, kQuantRowCount> kQuants{{
    {2.0, 2.0, 0.6},      // F16
    {1.0, 1.05, 0.8},     // Q8_0
    {0.75, 0.80, 0.95},   // Q6_K
    {0.625, 0.68, 1.0},   // Q5_K_M
    {0.5, 0.58, 1.15},    // Q4_K_M
    {0.375, 0.48, 1.25},  // Q3_K_M
    {0.25, 0.37, 1.35},   // Q2_K
    {0.53, 0.55, 1.15},   // MXFP4
}};

// The config.json of models with latent attention has none; the tool then divides.
double head_dim(const ModelSpec& m) {
  return m.mla ? std::floor(double(m.hidden) / m.heads) : double(m.head_dim);
}

// The tool adds decimal weights and a binary cache up as "GB", and compares them with GiB.
double needed_gb(const Scenario& s, const QuantFactors& quant, const ParameterCount& count) {
  int cached_layers = 0;
  for (int layer = 0; layer < s.model.layers; ++layer) cached_layers += s.model.has_kv(layer);
  const TokenCount context = s.workload.context > 0
                                 ? s.workload.context
                                 : std::min<TokenCount>(s.model.context, kContextCap);
  const double cache_bytes = 2.0 * cached_layers * double(s.model.kv_heads) * head_dim(s.model) *
                             double(context) * 2;  // F16
  return count.total * quant.memory_bytes + cache_bytes / kGiB + kOverheadGb;
}

double usable_ram_gib(const Rig& rig) {
  return std::max(Bytes{0}, rig.ram.capacity.value - rig.ram_reserved.value).value / kGiB;
}

// Active experts in VRAM, the others in RAM: the tool's rule, whatever engine does that.
bool fits_with_experts_in_ram(const Scenario& s, const QuantFactors& quant,
                              const ParameterCount& count) {
  const double gib = quant.memory_bytes * kGB / kGiB;  // of 10^9 parameters
  return std::max(count.active * gib * 1.1, 0.5) <= vram_gib(s.rig) &&
         (count.total - count.active) * gib <= usable_ram_gib(s.rig);
}

// An explicit placement is used as it is. In the tool's planner a MoE model that is not fully on
// the GPU has its experts in RAM, so layers on the host mean that, too.
std::optional<RunMode> run_mode(const Scenario& s, const QuantFactors& quant,
                                const ParameterCount& count) {
  const auto share = placed_gpu_share(s);
  const double needed = needed_gb(s, quant, count);
  const double ram = usable_ram_gib(s.rig);
  const auto if_fits = [&](RunMode mode, double available) {
    return share || needed <= available ? std::optional(mode) : std::nullopt;
  };
  if (decodes_on_cpu(s)) return if_fits(RunMode::kCpuOnly, ram);
  // With one pool of memory nothing is offloaded.
  if (s.rig.unified()) return if_fits(RunMode::kGpu, vram_gib(s.rig));
  if (share && *share < 1) return s.model.moe ? RunMode::kMoeOffload : RunMode::kCpuOffload;
  if (share || needed <= vram_gib(s.rig)) return RunMode::kGpu;
  if (s.model.moe && fits_with_experts_in_ram(s, quant, count)) return RunMode::kMoeOffload;
  return if_fits(RunMode::kCpuOffload, ram);
}

// The penalty for idle experts in a nearly full memory. The tool uses the primary card, even if
// there are more, and no penalty if it is overfull.
double cache_pressure(const Scenario& s, const QuantFactors& quant, double total) {
  const double used = total * quant.memory_bytes / (primary_gpu(s.rig).memory.value.value / kGiB);
  if (used > 1 || used < kPressureFrom) return 1;
  const double idle = 1 - double(s.model.moe->experts_used) / s.model.moe->experts;
  return std::max(1 - (used - kPressureFrom) * idle, kPressureFloor);
}

// Computed from widths, as in the tool: every layer has experts, three matrices each, and embedding
// and head are both read completely. Its scraper reads the width of shared experts only under
// Qwen's key.
double moe_gpu_decode(const Scenario& s, const QuantFactors& quant, const ParameterCount& count,
                      double bandwidth_gbps) {
  const ModelSpec& m = s.model;
  const double layers = m.layers, hidden = double(m.hidden);
  const double routed = layers * m.moe->experts_used * 3 * hidden * double(m.moe->expert_ffn);
  const double attention = layers * 2 * (m.heads + m.kv_heads) * head_dim(m) * hidden;
  const double shared_ffn = m.architecture.starts_with("qwen") ? double(m.moe->shared_ffn) : 0;
  const double shared = layers * 3 * hidden * shared_ffn;
  const double router = layers * m.moe->experts * hidden;
  const double vocabulary = 2 * double(m.vocabulary) * hidden;
  const double fixed = attention + shared + router + vocabulary;
  const double fixed_bytes = m.architecture == "gpt-oss" ? kFixedBytesGptOss : kFixedBytes;
  const double read_gb = (routed * quant.memory_bytes + fixed * fixed_bytes) / 1e9;
  return bandwidth_gbps / read_gb * cache_pressure(s, quant, count.total);
}

double cpu_decode(const CpuPart& cpu, const QuantFactors& quant, double active) {
  const bool arm = cpu.simd.starts_with("neon") || cpu.simd.starts_with("sve");
  const double threads_factor = std::max(cpu.threads, cpu.cores) >= 8 ? 1.1 : 1.0;
  return (arm ? kCpuArm : kCpuX86) / active * quant.cpu_factor * threads_factor * kCpuOnlyFactor;
}

}  // namespace

std::optional<double> llmfit_decode(const Scenario& s) {
  const auto row = quant_row(s.quant);
  if (!row) return std::nullopt;
  const QuantFactors& quant = kQuants[std::size_t(*row)];
  const ParameterCount count = parameter_count(s);
  const auto mode = run_mode(s, quant, count);
  if (!mode) return std::nullopt;
  const double active = std::max(count.active, 0.1);
  if (*mode == RunMode::kCpuOnly) return std::max(cpu_decode(s.rig.cpu, quant, active), kSlowest);

  const double bandwidth_gbps = primary_gpu(s.rig).bandwidth.value.value / 1e9;
  const double read_gb = active * quant.speed_bytes;
  const double from_vram = bandwidth_gbps / read_gb * kEfficiency;
  double speed = from_vram;
  if (*mode == RunMode::kCpuOffload) speed *= kCpuOffloadFactor;
  if (*mode == RunMode::kMoeOffload)
    speed = kMoeOffloadFactor / (read_gb / (s.rig.ram.bandwidth.value.value / 1e9) + 1 / from_vram);
  if (*mode == RunMode::kGpu && s.model.moe)
    speed = moe_gpu_decode(s, quant, count, bandwidth_gbps);
  return std::max(speed, kSlowest);
}

}  // namespace rigcast::formulas
