#pragma once
// For a process that others are forked from.

namespace rigcast::sim {

/// Makes what simulations share, once in a process, which takes longer than a small one. Nothing is
/// simulated: results are those of a process that has not called this.
void prepare();

}  // namespace rigcast::sim
