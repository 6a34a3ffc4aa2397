#include "perfmodel/cost/kernel_cost.hpp"

#include <algorithm>
#include <cmath>

#include "core/hardware/cpu_architecture.hpp"
#include "core/hardware/gpu_architecture.hpp"
#include "perfmodel/context/correction.hpp"

namespace rigcast {
namespace {

// PyTorch's flash attention on NVIDIA needs compute capability 8.0. Below it grouped queries are
// left to kernels that write K and V out: issue 48633 of transformers.
bool has_flash_kernel(const StepContext& s, const GpuPart& gpu) {
  constexpr std::string_view kNone[] = {"turing",    "volta",   "pascal",
                                        "pascal-dc", "maxwell", "kepler"};
  return s.settings.backend == Backend::kCuda &&
         std::ranges::find(kNone, gpu.architecture) == std::end(kNone);
}

// True if K and V are written out once for every query head before attention reads them.
bool expands_kv(const StepContext& s, const GpuPart* gpu) {
  const auto& decode = s.runtime.decode;
  if (!decode.expands_kv || !decode.grouped_since || !s.settings.flash_attention)
    return decode.expands_kv;
  const double since = decode.grouped_since->value;
  return s.settings.build_year.value_or(since) < since || (gpu && !has_flash_kernel(s, *gpu));
}

bool is_windows(const Rig& rig) {
  return rig.os == OperatingSystem::kWindows || rig.os == OperatingSystem::kWsl2;
}

// True if the split leaves work for one GPU only. Without a split, every GPU of the rig has work.
bool one_gpu_works(const StepContext& s) {
  const auto& split = s.placement.tensor_split;
  return s.rig.gpus.size() == 1 ||
         std::ranges::count_if(split, [](double share) { return share > 0; }) == 1;
}

bool captures_graphs(const StepContext& s, const GpuPart& gpu, TokenCount tokens) {
  if (gpu.shared && !gpu.shared->graphs) return false;
  const GpuArchitecture* known = gpu_architecture(gpu.architecture);
  const double since = s.runtime.graphs_since.value;
  return tokens == 1 && one_gpu_works(s) && s.settings.backend == Backend::kCuda &&
         (!known || known->graphs) && s.settings.build_year.value_or(since) >= since;
}

// `in_graph`: in a captured one, where there is one.
Seconds launch_time(const StepContext& s, const GpuPart& gpu, TokenCount tokens, bool in_graph) {
  const BackendEfficiency& backend = s.runtime.backends[std::size_t(s.settings.backend)];
  double scale =
      s.runtime.gpu_efficiency(gpu).launch.value * before_changes(s, gpu, ChangedFigure::kLaunch);
  if (in_graph && captures_graphs(s, gpu, tokens))
    scale *= backend.graph_launch.value;
  else if (gpu.shared)
    scale *= gpu.shared->launchers;
  if (!has_token_kernels(s, tokens))
    scale *= s.runtime.blocks ? s.runtime.blocks->launch.value : s.runtime.batch.launch.value;
  if (is_windows(s.rig)) scale *= s.runtime.windows.launch.value;
  if (has_slow_host(s.rig.cpu)) scale *= backend.slow_host.value;
  return backend.launch.value * scale * host_clock_factor(s);
}

}  // namespace

bool has_token_kernels(const StepContext& s, TokenCount tokens) {
  return tokens <= (s.runtime.blocks ? 1 : kMatVecTokens);
}

double before_changes(const StepContext& s, const GpuPart& gpu, ChangedFigure figure) {
  return s.runtime.factor_before(figure, {s.settings.backend, gpu.architecture},
                                 s.settings.build_year);
}

Seconds launch_overhead(const StepContext& s, const GpuPart& gpu, TokenCount tokens) {
  return launch_time(s, gpu, tokens, true);
}

Seconds exchange_launches(const StepContext& s, const GpuPart& gpu, TokenCount tokens) {
  if (!gpu.shared || gpu.shared->launches <= 0) return {};
  const double graphs = captures_graphs(s, gpu, tokens) ? 1 : 0;
  return launch_time(s, gpu, tokens, false) * (gpu.shared->launches + graphs);
}

// Where grouped queries are expanded, K and V are read, written once for every query head, and read
// again.
double cache_bytes(const StepContext& s, const OpTraffic& t, const GpuPart* gpu) {
  const double kv = t.kv_read_bytes + t.kv_write_bytes + 2.0 * t.kv_copied_bytes;
  if (!expands_kv(s, gpu)) return kv;
  return kv + 2.0 * (double(s.model.heads) / kv_heads(s, t)) * t.kv_read_bytes;
}

double power_share(const StepContext& s, const GpuPart& gpu, FlopsPerSecond rate, double usual) {
  if (!gpu.board_power) return 1.0;
  const double watts = gpu.board_power->value.value / (rate.value / 1e12);
  return std::pow(std::clamp(watts / usual, 0.2, 2.0), s.runtime.batch.power.value);
}

double share_of_expert(const StepContext& s) {
  const MixtureOfExperts& moe = *s.model.moe;
  return std::clamp(double(moe.experts_used) / std::max(1, moe.experts), 0.0, 1.0);
}

double kv_heads(const StepContext& s, const OpTraffic& t) {
  return std::max(1.0, double(t.kv_heads > 0 ? t.kv_heads : s.model.kv_heads));
}

double heads_of_cache(const StepContext& s, const OpTraffic& t) {
  return s.model.mla ? 1.0 : kv_heads(s, t);
}

Seconds single_attention_time(const StepContext& s, const GpuPart& gpu, const OpTraffic& t) {
  const auto& blocks = s.runtime.blocks;
  if (!blocks || !blocks->single_start || t.single_flops <= 0 || !gpu.units) return {};
  constexpr double kBlocksOfUnit = 2;
  return blocks->single_start->value *
         std::ceil(t.single_tokens * heads_of_cache(s, t) / (kBlocksOfUnit * double(*gpu.units)));
}

double host_clock_factor(const StepContext& s) {
  const auto& known = s.runtime.backends[std::size_t(s.settings.backend)].launch_clock;
  const auto own = clock_of_one_core(s.rig.cpu);
  return known && own ? known->value / *own : 1.0;
}

std::optional<Hertz> clock_of_one_core(const CpuPart& cpu) {
  const bool is_measured = cpu.clock && cpu.clock->kind == SourceKind::kMeasured;
  const auto& known = cpu.boost_clock && !is_measured ? cpu.boost_clock : cpu.clock;
  return known ? std::optional(known->value) : std::nullopt;
}

OpCost corrected(const StepContext& s, OpCost cost, TokenCount tokens, DeviceIndex device) {
  // A GPU chip's factor of one token is that of its kernels for a few, and of its memory.
  const bool on_gpu = device != kHost, few = on_gpu && has_token_kernels(s, tokens);
  const double rig = device_speed(s, tokens, device == kHost);
  const double speed = rig * chip_speed(s, few ? 1 : tokens, device);
  cost.overhead = cost.overhead / speed;
  cost.serial = cost.serial / speed;
  cost.compute = cost.compute / speed;
  cost.equivalent_bytes =
      cost.equivalent_bytes / (rig * chip_speed(s, on_gpu ? 1 : tokens, device));
  return cost;
}

}  // namespace rigcast
