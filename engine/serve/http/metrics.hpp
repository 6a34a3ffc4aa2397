#pragma once
// What a page of metrics tells, in Prometheus' text format.

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "core/base/units.hpp"
#include "engine/serve/completions.hpp"

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

/// What the server itself counts. Used by one thread.
struct HttpMetrics {
  int connections = 0;
  std::map<int, std::uint64_t> responses{};  // by status
  std::uint64_t dropped_slow = 0;            // clients that did not read or write in time
  std::uint64_t dropped_disconnected = 0;    // and those that left before the answer's end
  DurationHistogram first_token{};           // from a request's last byte to its first token
  DurationHistogram next_token{};            // between tokens of one answer
};

std::string metrics_text(const CompletionsState& state, const HttpMetrics& http);

}  // namespace rigcast::engine
