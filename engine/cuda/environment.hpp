#pragma once
// Environment variables that must be hidden from CUDA.

namespace rigcast::engine {

/// Removes CUDA_LAUNCH_BLOCKING before CUDA reads it, and reports on standard error if it was set:
/// with it a launch returns only when its work has ended, and work that waits for a host operation
/// would never end.
void ignore_launch_blocking();

}  // namespace rigcast::engine
