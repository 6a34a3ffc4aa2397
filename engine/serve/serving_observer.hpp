#pragma once
// Who is told what becomes of the requests of a serving loop, and when.

#include <chrono>
#include <cstddef>

#include "core/base/units.hpp"
#include "engine/serve/completions.hpp"

namespace rigcast::engine {

/// A step, and what waited before it.
struct ServedStep {
  using Time = std::chrono::steady_clock::time_point;
  Time begin, end;  // of the executor's call
  std::size_t running = 0, waiting = 0;
  int blocks_used = 0;
  TokenCount tokens = 0;     // that were computed
  bool has_prompts = false;  // else each sequence decodes
  // What the first of those that wait does so for; none of them: the next step.
  bool is_full = false, lacks_cache = false, only_loads = false;
};

/// Functions are called on the engine's thread, in the order of time; they return quickly and do
/// not throw.
class ServingObserver {
 public:
  using Time = std::chrono::steady_clock::time_point;
  virtual ~ServingObserver() = default;

  /// It was submitted at `arrival`, and is queued since `at`.
  virtual void queued(CompletionId, Time /*arrival*/, Time /*at*/) {}
  /// It is in the next step, for the first time or again after a preemption. `cached`,
  /// `from_host`: its first tokens that were in the pool, and after those in the host's pool.
  virtual void admitted(CompletionId, Time, TokenCount /*cached*/, TokenCount /*from_host*/) {}
  /// It gives up its blocks, with so many computed tokens.
  virtual void preempted(CompletionId, Time, TokenCount /*lost*/) {}
  /// So many blocks were asked for from, or to, the host's pool.
  virtual void copied(Time, std::size_t /*to_host*/, std::size_t /*from_host*/) {}
  /// A token of its answer is known.
  virtual void token(CompletionId, Time) {}
  virtual void ended(CompletionId, Time, FinishReason) {}
  virtual void stepped(const ServedStep&) {}
};

}  // namespace rigcast::engine
