#pragma once
// Records the activities of a run as they happen, in the terms of report/activity.hpp.

#include <chrono>
#include <vector>

#include "report/trace.hpp"

namespace rigcast::engine {

/// Bytes that a step really moved between memory and compute units, by kind.
struct MovedBytes {
  double weights = 0, kv_read = 0, kv_written = 0;
  double on_host = 0;              // the part of these in host memory, where a GPU has the rest
  double to_gpu = 0, to_host = 0;  // in addition: bytes over the link

  double total() const { return weights + kv_read + kv_written; }
  MovedBytes& operator+=(const MovedBytes& other) {
    weights += other.weights;
    kv_read += other.kv_read;
    kv_written += other.kv_written;
    on_host += other.on_host;
    to_gpu += other.to_gpu;
    to_host += other.to_host;
    return *this;
  }
};

class Recorder {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Recorder(Clock::time_point origin = Clock::now()) : origin_(origin) {}

  double now() const { return std::chrono::duration<double>(Clock::now() - origin_).count(); }
  void set_phase(Phase phase) { phase_ = phase; }

  /// Adds an activity of the host from `start_s` until now.
  void add(ActivityKind kind, int layer, TokenCount token, double start_s, double bytes) {
    events_.push_back({track_of(kind, kHost), phase_, kind, layer, token, start_s, now(), bytes});
  }
  /// Adds an activity of a GPU, with times by the GPU's clock.
  void add_on(DeviceIndex gpu, ActivityKind kind, int layer, TokenCount token, double start_s,
              double finish_s, double bytes) {
    events_.push_back({track_of(kind, gpu), phase_, kind, layer, token, start_s, finish_s, bytes});
  }
  const std::vector<TraceEvent>& events() const { return events_; }

 private:
  Clock::time_point origin_;
  Phase phase_ = Phase::kPrefill;
  std::vector<TraceEvent> events_;
};

}  // namespace rigcast::engine
