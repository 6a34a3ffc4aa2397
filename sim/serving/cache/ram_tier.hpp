#pragma once
// The tiers behind a server's KV cache: RAM, behind a link whose directions do not share their
// rate, and a disk.

#include <algorithm>
#include <functional>
#include <optional>

#include "core/base/units.hpp"
#include "core/runtime/scheduler_policy.hpp"
#include "sim/machine/copy_links.hpp"

namespace rigcast {

/// What decides whether a prefix comes back from a tier.
struct RestoreRule {
  KvRestore when = KvRestore::kAlways;
  BytesPerSecond from_ram, from_disk;  // as the server knows them
};

struct RamTier {
  Bytes capacity;                             // 0: there is none
  std::function<Bytes(TokenCount)> bytes_of;  // so many first tokens of one sequence
  BytesPerSecond to_ram, to_gpu;
  Seconds start;   // of a copy
  int layers = 1;  // whose copies and computation can overlap
  /// Where copies and steps slow each other; nullopt: nowhere, and times have a closed form.
  std::optional<sim::CopyLinks> contended;

  Bytes disk;                // the tier behind it, or behind the cache alone; 0: there is none
  BytesPerSecond from_disk;  // to the cache. What is written there waits for nothing
  RestoreRule restore{};

  [[nodiscard]] bool any() const { return capacity.value > 0 || disk.value > 0; }
};

/// One direction of the link. Copies are made one after the other: all servers that are modelled
/// queue them so (vLLM: v1/kv_offload, the stream of a copy waits for the one before it; SGLang:
/// one stream for each direction in managers/cache_controller.py; llama-server: in its only
/// thread).
class CopyQueue {
 public:
  CopyQueue(BytesPerSecond rate, Seconds start) : rate_(rate), start_(start) {}

  struct Span {
    Seconds begin, end;
  };
  /// A copy that could begin now. Returns when it begins, and has ended.
  Span add(Seconds now, Bytes bytes) {
    const Seconds took = start_ + bytes / rate_;
    const Seconds begin = std::max(ends_, now);
    ends_ = begin + took;
    busy_ += took;
    bytes_ += bytes;
    return {begin, ends_};
  }
  [[nodiscard]] Seconds busy() const { return busy_; }
  [[nodiscard]] Bytes bytes() const { return bytes_; }

 private:
  BytesPerSecond rate_;
  Seconds start_, ends_{}, busy_{};
  Bytes bytes_{};
};

}  // namespace rigcast
