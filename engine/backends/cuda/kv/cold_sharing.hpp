#pragma once
// Who attends to keys and values that have left a GPU: the host where they lie, or the GPU once the
// link has brought them.

#include <algorithm>
#include <optional>

#include "core/base/units.hpp"
#include "core/scenario/engine_memory.hpp"

namespace rigcast::engine {

/// What the host's threads read and what the link carries, both at once: they share the memory.
struct SharedReading {
  BytesPerSecond host, link;
};

class ColdSharing {
 public:
  /// The host has this share of all.
  explicit ColdSharing(double host = 0) : share_(host) {}
  /// The host has as much as lets it and the link end together.
  explicit ColdSharing(const SharedReading& rates)
      : share_(rates.host / (rates.host + rates.link)), rates_(rates) {}

  /// A layer took `period` from one question to the host to the next one; it attended to `of_host`
  /// bytes in it. The link carries in the rest as well, while the GPU is at what else the layer
  /// has. The shortest rest counts, for in longer ones the GPU may have waited for the link. True:
  /// it is the first that tells.
  bool took(Seconds period, Bytes of_host) {
    if (!rates_) return false;
    const bool first = !rest_;
    const Seconds rest = std::max(Seconds{}, period - of_host / rates_->host);
    rest_ = std::min(rest, rest_.value_or(rest));
    return first;
  }

  /// Of `blocks` in each layer, `layer_block` bytes there, the host attends to so many.
  TokenCount of_host(TokenCount blocks, Bytes layer_block) const {
    if (!rest_) return TokenCount(double(blocks) * share_);
    const double ahead = rates_->link * *rest_ / layer_block;
    const double host = std::max(0.0, double(blocks) - ahead) * share_;
    return host < kLeastHostGain * double(blocks) ? 0 : TokenCount(host);
  }

 private:
  double share_ = 0;
  std::optional<SharedReading> rates_;  // absent: the share stays
  std::optional<Seconds> rest_;
};

}  // namespace rigcast::engine
