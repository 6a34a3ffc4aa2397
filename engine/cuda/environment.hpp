#pragma once
// What of the process' environment CUDA is not to see.

namespace rigcast::engine {

/// Takes CUDA_LAUNCH_BLOCKING away, before CUDA reads it, and says so on standard error if it was
/// set: with it a launch returns once its work has ended, and work that waits for the host's part
/// of a token never would.
void ignore_launch_blocking();

}  // namespace rigcast::engine
