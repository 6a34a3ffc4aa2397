#pragma once
// The contents of every device's memory, itemised; forecast or measured.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/units.hpp"

namespace rigcast {

enum class Tier { kVram, kRam };
std::string_view name(Tier tier);

struct DeviceMemory {
  std::string device;  // "GPU 0", "host"
  Tier tier = Tier::kRam;
  Bytes weights, kv, activations, staging, page_cache, overhead;
  Bytes capacity;    // of the device; `overhead` includes what others have reserved of it
  Bytes repacked{};  // of `weights`: copies in a layout for the CPU, not pages of the file
  Bytes mirrored{};  // of `weights`: copies for the cores of further memory nodes

  /// The sum without the page cache, which can be reclaimed.
  Bytes needed() const { return weights + kv + activations + staging + overhead; }
  Bytes total() const { return needed() + page_cache; }
  Bytes free() const { return capacity - needed(); }
};

struct MemoryPlan {
  std::vector<DeviceMemory> devices;  // GPUs in order, then the host
  /// Cached tokens that stay in VRAM under the policies that move the rest to RAM.
  std::optional<TokenCount> resident_tokens;
  /// True of a server's pool whose blocks may be in RAM: they stay where they are, so that no step
  /// depends on the steps before it. False: blocks leave VRAM when others need their room.
  bool blocks_stay = false;
  /// Under `spill`: the shares of each GPU's cache and weights that the driver keeps in system
  /// memory because VRAM is full. Empty under the other policies.
  struct Spill {
    double of_kv = 0;
    double of_weights = 0;
  };
  std::vector<Spill> spilled;
  /// Weights of the host that RAM cannot hold, and which are read from the mapped file again: the
  /// host's `weights` are those that it holds.
  Bytes outside_ram;
  /// Of the host's cache, what RAM cannot hold beside it and swap has room for: the host's `kv` is
  /// what it holds.
  Bytes swapped{};
  /// The same of the host's weights that are copies and no pages of a file: its `weights` are what
  /// it holds.
  Bytes swapped_weights{};
  /// Of the host's `overhead`: what other programs have at that moment of the scenario's timeline.
  Bytes others{};
  /// Of the host's `kv`: the second tier of a server's cache.
  Bytes ram_cache{};

  bool fits() const;
  /// True if every GPU that holds weights has `headroom` left, and no other one has too little.
  bool fits_on_gpus(Bytes headroom) const;
  /// The device with the largest shortfall; nullptr if everything fits.
  const DeviceMemory* shortest() const;
};

}  // namespace rigcast
