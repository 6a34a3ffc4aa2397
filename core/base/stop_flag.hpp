#pragma once
// Cancellation: a flag that work checks between its pieces.

#include <atomic>

#include "core/base/error.hpp"

namespace rigcast {

/// Thrown by work that was asked to stop; its objects are as they were before.
class Interrupted : public MachineError {
 public:
  Interrupted() : MachineError("interrupted") {}
};

/// A flag that someone else sets, from a signal handler if need be. Copies look at the same one.
/// For use by several threads.
class StopFlag {
 public:
  StopFlag() = default;  // nobody asks
  /// `asked` outlives all copies.
  explicit StopFlag(const std::atomic<bool>& asked) : asked_(&asked) {}

  bool stop_requested() const { return asked_ && asked_->load(std::memory_order_relaxed); }
  void throw_if_requested() const {
    if (stop_requested()) throw Interrupted();
  }

 private:
  const std::atomic<bool>* asked_ = nullptr;
};

}  // namespace rigcast
