#include "core/scenario/regime.hpp"

#include <algorithm>

namespace rigcast {

std::string_view name(Regime regime) {
  switch (regime) {
    case Regime::kCpuOnly: return "CPU only";
    case Regime::kUnified: return "unified memory";
    case Regime::kKvInRam: return "KV in RAM";
    case Regime::kExpertsInRam: return "experts in RAM";
    case Regime::kSplit: return "layer split";
    case Regime::kSeveralGpus: return "several GPUs";
    case Regime::kResident: return "resident";
  }
  return "";
}

std::optional<Regime> regime_from(std::string_view text) {
  for (int r = 0; r < kRegimeCount; ++r)
    if (name(Regime(r)) == text) return Regime(r);
  return std::nullopt;
}

Regime regime_of(const Scenario& s, const Placement& p) {
  if (s.rig.gpus.empty()) return Regime::kCpuOnly;
  if (s.rig.unified()) return p.gpu_layers > 0 ? Regime::kUnified : Regime::kCpuOnly;
  const bool kv_in_ram = s.kv.policy != KvPolicy::kVram && s.kv.policy != KvPolicy::kSpill;
  if (kv_in_ram && p.gpu_layers > 0) return Regime::kKvInRam;
  const auto on_host = [](const LayerPlacement& l) {
    return l.weights != kHost && l.experts == kHost;
  };
  if (s.model.moe && std::ranges::any_of(p.layers, on_host)) return Regime::kExpertsInRam;
  if (p.gpu_layers <= s.model.layers || p.head_on == kHost) return Regime::kSplit;
  // GPUs that share every layer by a split mode are as far off as those that divide the layers.
  const bool several = s.rig.gpus.size() > 1 || s.placement.split_mode != kSplitByLayer;
  return several ? Regime::kSeveralGpus : Regime::kResident;
}

}  // namespace rigcast
