#include "perfmodel/cost/kernel_cost.hpp"

#include <algorithm>

#include "perfmodel/cost/correction.hpp"

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

}  // namespace

// Where grouped queries are expanded, K and V are read, written once for every query head, and read
// again.
double cache_bytes(const StepContext& s, const OpTraffic& t, const GpuPart* gpu) {
  const double kv = t.kv_read_bytes + t.kv_write_bytes + 2.0 * t.kv_copied_bytes;
  if (!expands_kv(s, gpu)) return kv;
  return kv + 2.0 * (double(s.model.heads) / s.model.kv_heads) * t.kv_read_bytes;
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
  const bool on_gpu = device != kHost, few = on_gpu && tokens <= kMatVecTokens;
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
