#pragma once
// A span of a step for the recorder: when a stage ran and what it read.

#include "engine/run/recorder.hpp"
#include "engine/threads/thread_team.hpp"

namespace rigcast::engine {

/// Records an activity from construction to the end of the scope, with the bytes that are counted
/// meanwhile. Only the team's first member records, and only if there is a recorder.
class ActivitySpan {
 public:
  ActivitySpan(const Worker& worker, Recorder* recorder, ActivityKind kind, int layer,
               TokenCount token, const MovedBytes& counted)
      : recorder_(worker.first() ? recorder : nullptr),
        kind_(kind),
        layer_(layer),
        token_(token),
        counted_(counted),
        before_(counted.total()),
        start_s_(recorder_ ? recorder_->now() : 0) {}
  ~ActivitySpan() {
    if (recorder_) recorder_->add(kind_, layer_, token_, start_s_, counted_.total() - before_);
  }
  ActivitySpan(const ActivitySpan&) = delete;
  ActivitySpan& operator=(const ActivitySpan&) = delete;

 private:
  Recorder* recorder_;
  ActivityKind kind_;
  int layer_;
  TokenCount token_;
  const MovedBytes& counted_;  // added to while all members are at a barrier
  double before_;
  double start_s_;
};

}  // namespace rigcast::engine
