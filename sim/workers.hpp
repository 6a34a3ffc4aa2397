#pragma once
// Pieces of work for processes of their own, as SimGrid simulates one machine a process: what a
// piece gives depends on nothing that was done before it, and several cores share them.

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "core/base/stop_flag.hpp"

namespace rigcast::sim {

struct Pieces {
  /// Computes a piece and returns its text; called in a process of its own.
  std::function<std::string(std::int64_t piece)> work;
  /// Receives the pieces in this process, in the order in which they end; returns false if no more
  /// are wanted.
  std::function<bool(std::int64_t piece, const std::string& text)> take;
  /// Requested if no more are wanted, also while none ends.
  StopFlag stop{};
  /// The same, asked five times a second in this process; empty: nobody asks.
  std::function<bool()> should_stop{};
};

/// Computes all pieces, `jobs` at a time. Throws MachineError if a process cannot be created, or
/// ends before its piece is done.
void run_pieces(std::span<const std::int64_t> pieces, int jobs, const Pieces& how);

}  // namespace rigcast::sim
