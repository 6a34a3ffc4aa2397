#include "bench/gpu_handoff.cuh"

#include <algorithm>
#include <chrono>
#include <vector>

#include "engine/cuda/message.cuh"

namespace rigcast::bench {

using namespace engine;

double handoff_seconds(int floats) {
  constexpr int kTrips = 200, kSamples = 7;
  Mailbox box{std::size_t(floats)};
  const DeviceBuffer hidden(std::size_t(floats) * sizeof(float));
  const Stream stream;
  RIGCAST_CUDA_CALL(cudaMemsetAsync(hidden.as(), 0, hidden.bytes(), stream.get()));
  const RecordedGraph graph(stream, [&] {
    for (int i = 0; i < kTrips; ++i) {
      const cuda::MessagePart part{hidden.as(), floats};
      const cuda::AnswerPart use{hidden.as<float>(), floats};
      cuda::send(stream, {&part, 1}, box.view());
      cuda::receive(stream, box.view(), {&use, 1});
    }
  });
  std::vector<double> takes;
  for (int take = 0; take < kSamples; ++take) {
    const auto begin = std::chrono::steady_clock::now();
    graph.launch(stream);
    for (int i = 0; i < kTrips; ++i) {
      const float* const message = box.await(stream);
      std::copy_n(message, floats, box.answer_buffer());
      box.answer();
    }
    stream.wait();
    const auto end = std::chrono::steady_clock::now();
    takes.push_back(std::chrono::duration<double>(end - begin).count() / kTrips);
  }
  std::ranges::nth_element(takes, takes.begin() + kSamples / 2);
  return takes[kSamples / 2];
}

}  // namespace rigcast::bench
