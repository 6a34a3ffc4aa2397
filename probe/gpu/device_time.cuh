#pragma once
// Timing of queued work by the GPU's clock, and the number of repetitions.

#include <chrono>
#include <future>
#include <utility>
#include <vector>

#include "engine/cuda/cuda_stream.cuh"

namespace rigcast::probe {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Seconds, by the GPU's clock, of the work that `queue` puts on the stream.
template <class Queue>
double device_seconds(const engine::Stream& stream, Queue queue) {
  const engine::Event begin, end;
  begin.record(stream);
  queue();
  end.record(stream);
  end.wait();
  return engine::Event::seconds_between(begin, end);
}

/// Calls `take` seven times, or three on a GPU so slow that seven exceed the budget.
template <class Measure>
std::vector<double> several(double budget_s, Measure measure) {
  constexpr std::size_t kMin = 3, kMax = 7;
  const Clock::time_point begin = Clock::now();
  std::vector<double> values;
  while (values.size() < kMin || (values.size() < kMax && seconds_since(begin) < budget_s))
    values.push_back(measure());
  return values;
}

/// As several(), with a new thread for each repetition: the core on which the host thread runs
/// affects its time most, so the spread includes it.
template <class Measure>
std::vector<double> several_threads(double budget_s, Measure measure) {
  int device = 0;
  RIGCAST_CUDA_CALL(cudaGetDevice(&device));
  const auto on_device = [&] {
    RIGCAST_CUDA_CALL(cudaSetDevice(device));
    return measure();
  };
  return several(budget_s, [&] { return std::async(std::launch::async, on_device).get(); });
}

}  // namespace rigcast::probe
