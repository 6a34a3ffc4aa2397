#pragma once
// The split of attention over evicted keys and values: the host attends to a part in its own
// memory, and the link copies the rest to the GPU.

#include <algorithm>
#include <optional>

#include "core/base/units.hpp"

namespace rigcast::engine {

/// Rates at which the host's threads read and the link copies while both run: they share the
/// memory.
struct ConcurrentBandwidth {
  BytesPerSecond host, link;
};

class CpuGpuKvSplit {
 public:
  /// The smallest share of a layer's copy time that the host must save before it attends to evicted
  /// blocks: a host operation costs the GPU more than its wait, which varies from token to token.
  static constexpr double kMinHostGain = 0.15;

  /// A fixed share for the host.
  explicit CpuGpuKvSplit(double host = 0) : share_(host) {}
  /// A share for the host by which it and the link end at the same time.
  explicit CpuGpuKvSplit(const ConcurrentBandwidth& rates)
      : share_(rates.host / (rates.host + rates.link)), rates_(rates) {}

  /// Records the time `period` of a layer, from one message to the host to the next one, in which
  /// the host attended to `of_host` bytes. The rest of that time is the GPU's other work of the
  /// layer, during which the link copies too. The shortest rest is used, because in longer ones the
  /// GPU may have waited for the link. Returns true for the first record.
  bool record_period(Seconds period, Bytes of_host) {
    if (!rates_) return false;
    const bool first = !rest_;
    const Seconds rest = std::max(Seconds{}, period - of_host / rates_->host);
    rest_ = std::min(rest, rest_.value_or(rest));
    return first;
  }

  /// The number of blocks, out of `blocks` in each layer, to which the host attends; `layer_block`:
  /// bytes of one layer of a block.
  TokenCount of_host(TokenCount blocks, Bytes layer_block) const {
    if (!rest_) return TokenCount(double(blocks) * share_);
    const double ahead = rates_->link * *rest_ / layer_block;
    const double host = std::max(0.0, double(blocks) - ahead) * share_;
    return host < kMinHostGain * double(blocks) ? 0 : TokenCount(host);
  }

 private:
  double share_ = 0;
  std::optional<ConcurrentBandwidth> rates_;  // absent: the share is fixed
  std::optional<Seconds> rest_;
};

}  // namespace rigcast::engine
