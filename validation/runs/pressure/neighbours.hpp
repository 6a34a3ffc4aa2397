#pragma once
// Threads that read memory as fast as they can beside a run, as those of other programs do.

#include <thread>
#include <vector>

namespace rigcast::validation {

/// While the object lives, `threads` threads read, each its own memory, which no cache holds.
class Neighbours {
 public:
  explicit Neighbours(int threads);

 private:
  std::vector<std::jthread> threads_;
};

}  // namespace rigcast::validation
