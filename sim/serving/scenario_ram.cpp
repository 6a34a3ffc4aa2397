#include "sim/serving/scenario_ram.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/model/kv_bytes.hpp"
#include "core/text/unit_text.hpp"
#include "sim/serving/contended_links.hpp"

namespace rigcast {
namespace {

struct Rates {
  BytesPerSecond to_ram, to_gpu;
};

// Between RAM and the device that has a layer's keys and values. Slots are copied from and to
// memory that is not pinned (std::vector in tools/server/server-task.cpp), blocks from and to
// pinned memory.
Rates rates_of(const Scenario& s, DeviceIndex at) {
  if (at == kHost || s.rig.unified()) {
    const BytesPerSecond half = s.rig.ram.bandwidth.value * 0.5;  // read here, written there
    return {half, half};
  }
  const HostLink& link = s.rig.links[std::size_t(at)];
  const auto within_ram = [&](BytesPerSecond rate) {
    return std::min(rate, s.rig.ram.bandwidth.value);  // of the links of several GPUs
  };
  if (s.scheduler->layout == KvLayout::kSlots) {
    const BytesPerSecond pageable = within_ram(link.pageable.value);
    return {pageable, pageable};
  }
  const double share = s.runtime.decode.stream_share.value;
  return {within_ram(link.d2h.value * share), within_ram(link.h2d.value * share)};
}

// Slots are copied one layer after the other, blocks by all GPUs at once.
Rates rates_of(const Scenario& s, const Placement& p) {
  const double all = kv_bytes_per_token(s.model, s.kv.types);
  std::vector<double> bytes(s.rig.gpus.size() + 1);
  for (int l = 0; l < s.model.layers; ++l) {
    const DeviceIndex at = p.layers[std::size_t(l)].kv;
    bytes[at == kHost ? bytes.size() - 1 : std::size_t(at)] +=
        kv_bytes_per_token(s.model, l, s.kv.types);
  }
  double to_ram = 0, to_gpu = 0;  // seconds for `all`
  for (std::size_t d = 0; d < bytes.size(); ++d) {
    if (bytes[d] <= 0) continue;
    const Rates own = rates_of(s, d + 1 == bytes.size() ? kHost : DeviceIndex(d));
    const double out = bytes[d] / own.to_ram.value, in = bytes[d] / own.to_gpu.value;
    const bool one_by_one = s.scheduler->layout == KvLayout::kSlots;
    to_ram = one_by_one ? to_ram + out : std::max(to_ram, out);
    to_gpu = one_by_one ? to_gpu + in : std::max(to_gpu, in);
  }
  return {BytesPerSecond{all / to_ram}, BytesPerSecond{all / to_gpu}};
}

}  // namespace

Result<RamTier> ram_tier_of(const Scenario& s, const Placement& p, Bytes free) {
  const SchedulerPolicy& policy = *s.scheduler;
  RamTier tier;
  const bool has_tier = policy.ram_cache.value > 0 || policy.disk_cache.value > 0;
  if (!has_tier || !policy.prefix_cache) return tier;
  if (policy.ram_cache > free && policy.layout == KvLayout::kBlocks)
    return Error{ErrorKind::kDoesNotFit,
                 fmt::format("a cache of {} in RAM, of which {} are free",
                             text_gib(policy.ram_cache), text_gib(std::max(free, Bytes{}))),
                 "a smaller scheduler.ram_cache, or more --ram"};
  tier.capacity = std::max(Bytes{}, std::min(policy.ram_cache, free));
  tier.bytes_of = [&s](TokenCount tokens) { return Bytes{kv_bytes(s.model, tokens, s.kv.types)}; };
  const Rates rates = rates_of(s, p);
  tier.to_ram = rates.to_ram;
  tier.to_gpu = rates.to_gpu;
  tier.layers = s.model.layers;
  const bool has_link = !s.rig.gpus.empty() && !s.rig.unified();
  const Seconds latency = has_link ? s.rig.links.front().latency.value : Seconds{};
  constexpr double kCopiesOfLayer = 2;  // keys and values
  tier.start = policy.layout == KvLayout::kSlots
                   ? latency * (kCopiesOfLayer * double(s.model.layers))
                   : latency;
  tier.contended = contended_links(s, p, tier);
  tier.disk = policy.disk_cache;
  // A block is read into memory, and copied from there before the next one is read.
  const double seconds_per_byte = 1 / s.rig.ssd.sequential_read.value.value + 1 / tier.to_gpu.value;
  tier.from_disk = BytesPerSecond{1 / seconds_per_byte};
  tier.restore = {policy.restore, tier.to_gpu, tier.from_disk};
  return tier;
}

std::string note_on_ram_limit(const Scenario& s, Bytes room) {
  const SchedulerPolicy& policy = *s.scheduler;
  const bool is_used = policy.prefix_cache && policy.layout == KvLayout::kSlots;
  if (!is_used || policy.ram_cache <= room) return {};
  return fmt::format(
      "RAM has room for {} of the {} of prompts that the server may keep there: forecast with as "
      "much; without --cache-ram {:.0f} it would go on until RAM is full",
      text_gib(room), text_gib(policy.ram_cache), std::floor(room / 1_MiB));
}

}  // namespace rigcast
