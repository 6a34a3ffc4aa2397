#pragma once
// What a page of metrics tells, in Prometheus' text format.

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "core/base/units.hpp"
#include "engine/serve/completions.hpp"
#include "http/limits.hpp"

namespace rigcast::engine {

/// Counts of durations, by upper bounds that a factor of about 2 lies between.
class DurationHistogram {
 public:
  static constexpr std::array<double, 16> kBounds_s = {
      0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 60, 180};

  void add(Seconds duration, std::uint64_t times = 1);
  std::uint64_t count() const { return count_; }
  Seconds sum() const { return sum_; }
  /// Durations up to and including each bound.
  std::span<const std::uint64_t> up_to() const { return up_to_; }

 private:
  std::array<std::uint64_t, kBounds_s.size()> up_to_{};
  std::uint64_t count_ = 0;
  Seconds sum_;
};

/// Used by one thread.
struct TokenDurations {
  DurationHistogram first{};  // from a request's last byte to its first token
  DurationHistogram next{};   // between tokens of one answer
};

std::string metrics_text(const CompletionsState& state, const HttpCounts& http,
                         const TokenDurations& durations);

}  // namespace rigcast::engine
