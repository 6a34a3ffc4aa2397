#pragma once
// Who is told what becomes of the requests of a serving loop, and when.

#include <chrono>
#include <cstddef>
#include <string>

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

/// First tokens of a sequence that are not computed again: those that were in the pool, and after
/// those in the host's pool and on disk. Those behind them were there as well, but computing them
/// is faster.
struct FoundTokens {
  TokenCount here = 0, on_host = 0, on_disk = 0;
  TokenCount computed_anew = 0;
};

/// Numbers of blocks, by where they went or came from.
struct CopiedBlocks {
  std::size_t to_host = 0, from_host = 0, to_disk = 0, from_disk = 0;
};

/// Functions are called on the engine's thread, in the order of time; they return quickly and do
/// not throw.
class ServingObserver {
 public:
  using Time = std::chrono::steady_clock::time_point;
  virtual ~ServingObserver() = default;

  /// It was submitted at `arrival`, and is queued since `at`.
  virtual void queued(CompletionId, Time /*arrival*/, Time /*at*/) {}
  /// It is in the next step, for the first time or again after a preemption.
  virtual void admitted(CompletionId, Time, const FoundTokens&) {}
  /// It gives up its blocks, with so many computed tokens.
  virtual void preempted(CompletionId, Time, TokenCount /*lost*/) {}
  /// Blocks were copied, or are by the next step.
  virtual void copied(Time, const CopiedBlocks&) {}
  /// Nothing else could be done meanwhile.
  virtual void awaited_copies(Time /*begin*/, Time /*end*/) {}
  /// Nothing is kept on disk any more, nor comes back from there. Told once.
  virtual void lost_disk(const std::string& /*why*/) {}
  /// A token of its answer is known.
  virtual void token(CompletionId, Time) {}
  virtual void ended(CompletionId, Time, FinishReason) {}
  virtual void stepped(const ServedStep&) {}
};

}  // namespace rigcast::engine
