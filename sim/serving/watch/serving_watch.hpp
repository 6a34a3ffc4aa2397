#pragma once
// Told of what happens while a load is served.

#include <cstddef>
#include <optional>

#include "core/base/units.hpp"
#include "sim/machine/copy_links.hpp"
#include "sim/serving/cache/kv_cache.hpp"

namespace rigcast {

using sim::CopyDirection;

/// A part of a step that one request had of it.
struct ComputedPart {
  RequestId request = 0;
  Seconds begin, end;  // of the step
  TokenCount tokens = 0;
  bool is_answer = false;  // the next token of its answer; else a piece of its prompt, or what a
                           // preemption lost
};

/// Calls come as time passes, but for copies, which are told when they begin or end. Times are
/// those since the load's start.
class ServingWatch {
 public:
  virtual ~ServingWatch() = default;
  virtual void arrived(RequestId request, Seconds at) = 0;
  /// Its keys and values begin to come back from RAM, for which it waits.
  virtual void loads(RequestId request, Seconds at) = 0;
  /// It runs from now on. `slot`: of a cache in slots.
  virtual void scheduled(RequestId request, Seconds at, std::optional<std::size_t> slot) = 0;
  virtual void computed(const ComputedPart& part) = 0;
  virtual void preempted(RequestId request, Seconds at) = 0;
  virtual void ended(RequestId request, Seconds at) = 0;
  /// Copies of one direction do not overlap, and come in order.
  virtual void copied(CopyDirection direction, Seconds begin, Seconds end, Bytes bytes) = 0;
  /// From now on. `used`: blocks or slots.
  virtual void levels(Seconds at, std::size_t running, std::size_t waiting, std::size_t used) = 0;
};

}  // namespace rigcast
