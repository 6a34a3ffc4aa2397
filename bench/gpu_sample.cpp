// Sampling of the next token from 128,256 logits on the GPU, in microseconds of a captured graph,
// compared with one read of the logits at memory's rate, a nearly empty kernel, and sampling on the
// host.
#include <chrono>
#include <cstdio>
#include <random>
#include <vector>

#include "bench/gpu_read.cuh"
#include "bench/gpu_seconds.cuh"
#include "engine/cuda/cuda_buffer.cuh"
#include "engine/kernels/cuda/activations/elementwise.cuh"
#include "engine/kernels/cuda/sampling/argmax.cuh"
#include "engine/kernels/cuda/sampling/sample.cuh"
#include "engine/run/sampler.hpp"

using namespace rigcast::engine;
using rigcast::bench::seconds;

namespace {

constexpr int kVocabulary = 128'256;
constexpr int kTimes = 100;

std::vector<float> normal_logits() {
  std::mt19937 bits(1);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> logits(kVocabulary);
  for (float& v : logits) v = normal(bits);
  return logits;
}

template <class T>
DeviceBuffer copied(const std::vector<T>& values) {
  DeviceBuffer buffer(values.size() * sizeof(T));
  RIGCAST_CUDA_CALL(cudaMemcpy(buffer.as(), values.data(), buffer.bytes(), cudaMemcpyHostToDevice));
  RIGCAST_CUDA_CALL(cudaDeviceSynchronize());
  return buffer;
}

double drawing(const Stream& stream, const std::vector<float>& logits, int top_k) {
  const DeviceBuffer on_gpu = copied(logits), id(sizeof(std::int32_t));
  std::vector<cuda::SampleState> state(1);
  state[0].params = {0.8f, top_k, 0.95f, 1, 0};
  const DeviceBuffer work = copied(state);
  return seconds(stream, kTimes, [&] {
    for (int i = 0; i < kTimes; ++i)
      cuda::sample(stream, on_gpu.as<float>(), kVocabulary, work.as<cuda::SampleState>(),
                   {id.as<std::int32_t>(), nullptr});
  });
}

double likeliest_one(const Stream& stream, const std::vector<float>& logits) {
  const DeviceBuffer on_gpu = copied(logits), id(sizeof(std::int32_t));
  const DeviceBuffer state = copied(std::vector<cuda::ArgmaxState>(1));
  return seconds(stream, kTimes, [&] {
    for (int i = 0; i < kTimes; ++i)
      cuda::argmax(stream, on_gpu.as<float>(), kVocabulary, state.as<cuda::ArgmaxState>(),
                   {id.as<std::int32_t>(), nullptr});
  });
}

double next_to_nothing(const Stream& stream) {
  const DeviceBuffer position = copied(std::vector<std::int32_t>(1));
  return seconds(stream, kTimes, [&] {
    for (int i = 0; i < kTimes; ++i) cuda::advance(stream, position.as<std::int32_t>());
  });
}

double by_the_host(const Stream& stream, const std::vector<float>& logits, int top_k) {
  const DeviceBuffer on_gpu = copied(logits);
  Sampler sampler({.temperature = 0.8f, .top_k = top_k, .top_p = 0.95f, .seed = 1});
  std::vector<float> here(logits.size());
  const auto since = std::chrono::steady_clock::now();
  for (int i = 0; i < kTimes; ++i) {
    RIGCAST_CUDA_CALL(cudaMemcpyAsync(here.data(), on_gpu.as(), on_gpu.bytes(),
                                      cudaMemcpyDeviceToHost, stream.get()));
    stream.wait();
    sampler.next(here);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count() / kTimes;
}

void print(const char* what, double s) { std::printf("%-58s%8.2f us\n", what, s * 1e6); }

}  // namespace

int main() {
  const Stream stream;
  const auto logits = normal_logits();
  const std::size_t much = std::size_t(2) << 30;
  const DeviceBuffer memory(much);
  const double rate = rigcast::bench::plain_read_gb_s(stream, memory.as<std::byte>(), much) * 1e9;
  print("one read of the logits at memory's rate", kVocabulary * sizeof(float) / rate);
  print("a kernel that adds to a number", next_to_nothing(stream));
  print("the likeliest", likeliest_one(stream, logits));
  print("drawn from 1", drawing(stream, logits, 1));
  print("drawn from 40", drawing(stream, logits, 40));
  print("drawn from 1,024", drawing(stream, logits, 1024));
  const std::vector<float> equal(kVocabulary, 1.0f);
  print("drawn from 40 of equal logits", drawing(stream, equal, 40));
  print("drawn from 40, logits brought to the host", by_the_host(stream, logits, 40));
}
