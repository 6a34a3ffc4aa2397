#pragma once
// How long work on a GPU takes.

#include <algorithm>
#include <vector>

#include "engine/cuda/cuda_stream.cuh"

namespace rigcast::bench {

/// Seconds of one of `times` that `queue` puts on the stream, which are recorded as one graph; the
/// median of several takes. Throws CudaFailure.
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

}  // namespace rigcast::bench
