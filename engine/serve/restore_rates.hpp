#pragma once
// How fast this machine brings keys and values back, and computes them anew, as measured while it
// serves; and which of both is faster for a prefix that was found.

#include <array>
#include <cstddef>
#include <optional>
#include <span>

#include "core/base/units.hpp"
#include "core/runtime/scheduler_policy.hpp"

namespace rigcast::engine {

/// Where a block's contents come back from.
enum class KvTier { kHost, kDisk };

class RestoreRates {
 public:
  /// Rates that do not change, per second: for comparisons.
  static RestoreRates fixed(BytesPerSecond from_host, BytesPerSecond from_disk, double tokens);

  /// So much came back in that time.
  void copied(KvTier from, Bytes bytes, Seconds took);
  /// Tokens of prompts were computed in that time.
  void computed(TokenCount tokens, Seconds took);

  /// Of the last measurements, each of which weighs less than the one after it; nullopt: none.
  [[nodiscard]] std::optional<BytesPerSecond> copy_rate(KvTier from) const;
  [[nodiscard]] std::optional<double> tokens_per_s() const;

  /// How many of the blocks that follow one another are to be restored, the first ones: so many
  /// that restoring these and computing the others takes the least time; of several such numbers
  /// the largest. What was not measured is taken to be fast to restore, and slow to compute.
  [[nodiscard]] std::size_t worth_restoring(std::span<const KvTier> blocks, Bytes block_bytes,
                                            TokenCount block_tokens, KvRestore rule) const;

 private:
  struct Measured {
    double amount = 0, seconds = 0;
    void add(double more, double took);
    [[nodiscard]] std::optional<double> rate() const;
  };
  std::array<Measured, 2> copies_{};  // by tier
  Measured prompts_{};
  bool fixed_ = false;
};

}  // namespace rigcast::engine
