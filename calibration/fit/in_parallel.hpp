#pragma once
// Work shared by threads.

#include <thread>
#include <vector>

namespace rigcast::calibration {

/// Runs `work` in `threads` threads, of which the caller's is one, and waits for all of them.
template <class Work>
void in_parallel(int threads, const Work& work) {
  std::vector<std::jthread> workers;  // joined at the end
  for (int t = 1; t < threads; ++t) workers.emplace_back(work);
  work();
}

}  // namespace rigcast::calibration
