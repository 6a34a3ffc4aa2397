#pragma once
// Timing of work on a GPU.

#include <algorithm>
#include <vector>

#include "engine/cuda/cuda_stream.cuh"

namespace rigcast::bench {

/// The time in seconds of one of `times` repeats of what `queue` puts on the stream, captured as
/// one graph; the median of several samples. Throws CudaFailure.
template <class Queue>
double seconds(const engine::Stream& stream, int times, Queue queue) {
  const engine::RecordedGraph graph(stream, queue);
  std::vector<double> takes;
  for (int take = 0; take < 12; ++take) {
    const engine::Event begin, end;
    begin.record(stream);
    graph.launch(stream);
    end.record(stream);
    end.wait();
    if (take >= 3) takes.push_back(engine::Event::seconds_between(begin, end) / times);
  }
  std::ranges::nth_element(takes, takes.begin() + 4);
  return takes[4];
}

/// The time in microseconds of one of `count` consecutive launches in a graph; the best of several
/// samples, which excludes those that other load slowed down. Throws CudaFailure.
template <class Launch>
double best_microseconds(const engine::Stream& stream, int count, Launch launch) {
  const engine::RecordedGraph graph(stream, [&] {
    for (int i = 0; i < count; ++i) launch(i);
  });
  const engine::Event begin, end;
  double best = 1e9;
  for (int take = 0; take < 6; ++take) {
    begin.record(stream);
    graph.launch(stream);
    end.record(stream);
    end.wait();
    best = std::min(best, engine::Event::seconds_between(begin, end) * 1e6 / count);
  }
  return best;
}

}  // namespace rigcast::bench
