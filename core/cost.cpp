#include "core/cost.hpp"

#include <algorithm>

namespace rigcast {
namespace {

// Up to this many tokens a batch runs as mat-vecs, whose arithmetic hides behind their reads.
constexpr TokenCount kMatVecTokens = 8;

bool is_float(std::size_t format) {
  const auto f = QuantFormat(format);
  return f == QuantFormat::kF32 || f == QuantFormat::kF16 || f == QuantFormat::kBF16;
}

double float_share(const OpTraffic& t) {
  double floats = 0;
  for (std::size_t f = 0; f < t.weight_bytes_by_format.size(); ++f)
    if (is_float(f)) floats += t.weight_bytes_by_format[f];
  const double all = t.weight_bytes();
  return all > 0 ? floats / all : 0.0;
}

// Bytes that attention moves of the cache. Where grouped queries are expanded, K and V are read,
// written once for every query head, and read again.
double cache_bytes(const Scenario& s, const OpTraffic& t) {
  const double kv = t.kv_read_bytes + t.kv_write_bytes;
  if (!s.runtime.decode.expands_kv) return kv;
  return kv + 2.0 * (double(s.model.heads) / s.model.kv_heads) * t.kv_read_bytes;
}

// Without flash attention every score is written, scaled, normalised and read as F32, by kernels of
// their own that nothing hides.
Seconds score_passes(const Scenario& s, const GpuPart& gpu, const OpTraffic& t) {
  const double scores = t.attention_flops / (4.0 * double(s.model.head_dim));
  return Bytes{4.0 * 4.0 * scores} / gpu.bandwidth.value;
}

double used_cores(const Scenario& s) {
  const CpuPart& cpu = s.rig.cpu;
  const double threads = s.settings.threads;
  const double fast = std::min(threads, double(cpu.cores));
  // Threads beyond the performance cores run on efficiency cores, at about half the rate; a second
  // thread on a core adds nothing to a kernel that keeps its units busy.
  return fast + 0.5 * std::clamp(threads - fast, 0.0, double(cpu.efficiency_cores));
}

double flops_per_cycle(const Scenario& s) {
  const auto& rates = s.runtime.cpu.flops_per_cycle;
  const auto own = rates.find(s.rig.cpu.simd);
  return (own != rates.end() ? own : rates.find("scalar"))->second.value;
}

BytesPerSecond cpu_read_rate(const Scenario& s, double share) {
  const BytesPerSecond drawn = s.runtime.cpu.read_per_thread.value * used_cores(s);
  return std::min(s.rig.ram.bandwidth.value * share, drawn);
}

}  // namespace

Sourced<FlopsPerSecond> matrix_rate(const GpuPart& gpu) {
  if (gpu.fp16_tensor) return *gpu.fp16_tensor;
  if (gpu.fp32) return *gpu.fp32;
  // Consumer parts without any published rate: 30 FLOP for a byte, the low end of their siblings.
  return {FlopsPerSecond{30.0 * gpu.bandwidth.value.value}, SourceKind::kAssumed,
          "no compute rate in the catalogue"};
}

OpCost gpu_cost(const Scenario& s, std::size_t gpu, const OpTraffic& t, TokenCount tokens,
                int kernels) {
  const GpuPart& part = s.rig.gpus[gpu];
  const GpuEfficiency& e = s.runtime.gpu_efficiency(part);
  OpCost cost;
  cost.bytes = t.total();
  for (std::size_t f = 0; f < t.weight_bytes_by_format.size(); ++f)
    cost.charged += Bytes{t.weight_bytes_by_format[f] / e.read_share(QuantFormat(f)).value};
  const double kv = cache_bytes(s, t);
  cost.bytes += Bytes{kv - t.kv_read_bytes - t.kv_write_bytes};
  cost.charged += Bytes{kv / e.kv_read.value + t.activation_bytes};

  const bool batched = tokens > kMatVecTokens;
  const double share = float_share(t);
  double reached = share * e.matmul_float.value + (1.0 - share) * e.matmul_quant.value;
  if (batched) reached *= t.tokens_per_weight / (t.tokens_per_weight + e.matmul_half_batch.value);
  const double rate = matrix_rate(part).value.value;
  if (t.matmul_flops > 0) cost.compute = Seconds{t.matmul_flops / (rate * reached)};
  // One token's attention streams the cache; what it multiplies hides behind that.
  if (batched)
    cost.compute += Seconds{t.attention_flops / (rate * e.attention.value)};
  cost.gap = e.kernel_gap.value * kernels;
  if (batched && !s.settings.flash_attention) cost.gap += score_passes(s, part, t);
  return cost;
}

BytesPerSecond cpu_cache_rate(const Scenario& s) {
  return cpu_read_rate(s, s.runtime.cpu.kv_read.value);
}

OpCost cpu_cost(const Scenario& s, const OpTraffic& t) {
  OpCost cost;
  cost.bytes = t.total();
  const double full = s.rig.ram.bandwidth.value.value;
  const double weights = cpu_read_rate(s, s.runtime.cpu.read.value).value;
  const double cache = cpu_cache_rate(s).value;
  const double kv = cache_bytes(s, t);
  cost.bytes += Bytes{kv - t.kv_read_bytes - t.kv_write_bytes};
  cost.charged = Bytes{t.weight_bytes() * full / weights + kv * full / cache};
  const double clock = s.rig.cpu.clock ? s.rig.cpu.clock->value.value : 3e9;
  cost.compute = Seconds{(t.matmul_flops + t.attention_flops) /
                         (used_cores(s) * clock * flops_per_cycle(s))};
  cost.gap = s.runtime.cpu.operation_gap.value * std::max(1, t.matrices);
  return cost;
}

}  // namespace rigcast
