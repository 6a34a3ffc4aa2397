#include "sim/serving/contended_links.hpp"

#include <algorithm>

namespace rigcast {

bool is_contended(const sim::CopyLinks& links, bool host_weights) {
  const BytesPerSecond none{};
  const BytesPerSecond streamed = host_weights ? links.h2d : none;
  const BytesPerSecond read = host_weights ? links.ram : none;
  return links.from_ram + std::max(links.exchange, streamed) > links.h2d ||
         links.to_ram + links.exchange > links.d2h ||
         links.to_ram + links.from_ram + std::max(streamed, read) > links.ram;
}

std::optional<sim::CopyLinks> contended_links(const Scenario& s, const Placement& p,
                                              const RamTier& tier) {
  if (tier.capacity.value <= 0 || s.scheduler->ram_load == RamLoad::kBlocking) return std::nullopt;
  if (s.rig.gpus.size() != 1 || s.rig.unified()) return std::nullopt;
  const bool on_gpu =
      std::ranges::all_of(p.layers, [](const LayerPlacement& l) { return l.kv != kHost; });
  if (!on_gpu) return std::nullopt;
  const HostLink& link = s.rig.links.front();
  sim::CopyLinks links{.h2d = link.h2d.value,
                       .d2h = link.d2h.value,
                       .ram = s.rig.ram.bandwidth.value,
                       .to_ram = tier.to_ram,
                       .from_ram = tier.to_gpu,
                       .exchange = {}};
  const auto& shared = s.rig.gpus.front().shared;
  if (shared && shared->exchange.over_pcie)
    links.exchange = shared->exchange.bus.value * double(shared->gpus);
  const bool host_weights = std::ranges::any_of(
      p.layers, [](const LayerPlacement& l) { return l.weights == kHost || l.experts == kHost; });
  return is_contended(links, host_weights) ? std::optional(links) : std::nullopt;
}

}  // namespace rigcast
