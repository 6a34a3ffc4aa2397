#pragma once
// What the host's memory is under pressure from: limits, swap, and what else takes memory over
// hours. The tables [memory] and [[timeline]] of a scenario.

#include <optional>
#include <string_view>
#include <vector>

#include "core/base/units.hpp"
#include "core/hardware/rig.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast {

enum class SwapDevice {
  kDisk,  // a file or partition on the rig's SSD: several pages with each fault
  kZram,  // compressed in RAM: one page with each fault, and no disk
};
std::string_view name(SwapDevice device);

/// What mlock keeps in RAM.
enum class MemoryLock { kNone, kKv, kWeights, kBoth };
std::string_view name(MemoryLock lock);

/// From one time to the next entry's.
struct TimelineEntry {
  Seconds at;
  Bytes other;            // of other programs, in use; beside what the rig reserves. These are
                          // within the limit where there is one: of the same container
  Bytes files;            // that other programs read again and again
  BytesPerSecond stream;  // of files that are read once
  int sessions = 1;       // whose caches are kept, and which all decode together
  /// Of each session; between two entries it grows or shrinks evenly.
  TokenCount session_tokens = 0;
};

struct MemorySettings {
  std::optional<Bytes> limit;  // of the process, as a control group sets it; absent: all RAM
  Bytes swap;                  // 0: none
  SwapDevice swap_on = SwapDevice::kDisk;
  int swappiness = 60;   // vm.swappiness, 0 to 200: 100 is an equal price of files and swap
  int page_cluster = 3;  // vm.page-cluster: a fault reads 2^n pages of a swap device on a disk
  MemoryLock lock = MemoryLock::kNone;
  bool in_order = false;  // mapped weights leave in the order in which they came (MADV_SEQUENTIAL)
  int max_sessions = 10'000;              // of the timeline's, that are open at once; others wait
  std::vector<TimelineEntry> timeline{};  // by time, the first at 0; empty: one moment

  bool locks_kv() const { return lock == MemoryLock::kKv || lock == MemoryLock::kBoth; }
  bool locks_weights() const { return lock == MemoryLock::kWeights || lock == MemoryLock::kBoth; }
};

/// Both tables; nullopt where the scenario has neither. `tokens`: of a session where an entry of
/// the timeline does not say. Refused: a limit above the rig's RAM, an entry that is not later
/// than the one before, and systems other than Linux.
std::optional<MemorySettings> read_memory_settings(const TomlTable& root, const Rig& rig,
                                                   TokenCount tokens);

/// What of a scenario decides which of these settings there are.
struct MemoryUser {
  std::string_view runtime;   // its name
  bool is_own = false;        // rigcast's engine
  bool maps_weights = false;  // and does not copy them
  TokenCount context = 0;
  bool has_load = false;
};
/// Refuses locks and orders that the runtime does not have, and sessions longer than its context.
void check_memory_settings(const TomlTable& root, const MemorySettings& settings,
                           const MemoryUser& user);

}  // namespace rigcast
