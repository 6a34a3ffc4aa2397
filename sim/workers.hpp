#pragma once
// Pieces of work for processes of their own, as SimGrid simulates one machine a process: what a
// piece gives depends on nothing that was done before it, and several cores share them.

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace rigcast::sim {

struct Pieces {
  /// In a process of its own: the piece's text.
  std::function<std::string(std::int64_t piece)> work;
  /// In this one, as pieces end, in any order; false: no more are wanted.
  std::function<bool(std::int64_t piece, const std::string& text)> take;
};

/// Does them, `jobs` at a time. Throws MachineError where a process cannot be made, or ended before
/// its piece was done.
void run_pieces(std::span<const std::int64_t> pieces, int jobs, const Pieces& how);

}  // namespace rigcast::sim
