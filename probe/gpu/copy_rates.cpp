#include "probe/gpu/copy_rates.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "engine/cuda/cuda_buffer.cuh"
#include "probe/gpu/device_time.cuh"

namespace rigcast::probe {
namespace {

constexpr std::size_t kSmallest = 4 << 10, kLargest = 256 << 20;
constexpr std::size_t kStep = 4;          // factor from one size to the next
constexpr double kCurveSeconds = 0.7;     // seconds for all passes over the sizes
constexpr double kPageableSeconds = 1.5;  // seconds with new pages for each pass
constexpr double kPointSeconds = 0.002;   // seconds of copies of one size: small ones are repeated

struct Place {
  void* to;
  const void* from;
  cudaMemcpyKind kind;
};

// The median time of copies that the host waits for one by one.
double seconds_of_one(const engine::Stream& stream, const Place& place, std::size_t bytes) {
  std::vector<double> seconds;
  const Clock::time_point begin = Clock::now();
  do {
    const Clock::time_point asked = Clock::now();
    RIGCAST_CUDA_CALL(cudaMemcpyAsync(place.to, place.from, bytes, place.kind, stream.get()));
    stream.wait();
    seconds.push_back(seconds_since(asked));
  } while (seconds_since(begin) < kPointSeconds);
  return samples_of(std::move(seconds)).median;
}

std::vector<CopyTime> pass_over(const engine::Stream& stream, const Place& place,
                                std::size_t largest) {
  seconds_of_one(stream, place, largest);  // the first copy touches pages that later ones reuse
  std::vector<CopyTime> pass;
  for (std::size_t bytes = kSmallest; bytes <= largest; bytes *= kStep)
    pass.push_back({double(bytes), seconds_of_one(stream, place, bytes)});
  return pass;
}

CopyCurve curve_of(const engine::Stream& stream, const Place& place, std::size_t largest) {
  std::vector<std::vector<CopyTime>> passes;
  several_threads(kCurveSeconds, [&] {
    passes.push_back(pass_over(stream, place, largest));
    return 0.0;
  });
  return copy_curve(passes);
}

// Copies to the GPU. The host copies what is not pinned first: where its pages lie matters, so that
// each pass has pages of its own.
CopyCurve pageable_curve(const engine::Stream& stream, void* device, std::size_t largest) {
  std::vector<std::vector<CopyTime>> passes;
  several_threads(kPageableSeconds, [&] {
    const auto pages = std::make_unique<std::byte[]>(largest);  // writing makes the pages resident
    passes.push_back(pass_over(stream, {device, pages.get(), cudaMemcpyHostToDevice}, largest));
    return 0.0;
  });
  return copy_curve(passes);
}

// Calls `meanwhile` in the middle of copies in both directions.
void copy_both_ways(const engine::PinnedBuffer& host, const engine::DeviceBuffer& device,
                    const engine::Stream& up, const engine::Stream& down,
                    const std::function<void()>& meanwhile) {
  constexpr int kCopies = 4;
  const std::size_t half = host.bytes() / 2;
  std::byte* const of_host = host.as<std::byte>();
  std::byte* const of_device = device.as<std::byte>();
  for (int i = 0; i < kCopies; ++i) {
    RIGCAST_CUDA_CALL(cudaMemcpyAsync(of_device, of_host, half, cudaMemcpyHostToDevice, up.get()));
    RIGCAST_CUDA_CALL(cudaMemcpyAsync(of_host + half, of_device + half, half,
                                      cudaMemcpyDeviceToHost, down.get()));
  }
  meanwhile();
  up.wait();
  down.wait();
}

// Largest copy: a quarter of the GPU's free memory stays free, and sizes are powers of the step.
std::size_t largest_copy() {
  std::size_t free = 0, total = 0;
  RIGCAST_CUDA_CALL(cudaMemGetInfo(&free, &total));
  std::size_t bytes = kLargest;
  while (bytes > kSmallest && bytes > free / 4) bytes /= kStep;
  return bytes;
}

}  // namespace

CopyRates measure_copies(const std::function<void()>& while_copying) {
  const std::size_t largest = largest_copy();
  const engine::Stream up, down;
  const engine::DeviceBuffer device(largest);
  CopyRates rates;
  {
    const engine::PinnedBuffer pinned(largest);
    std::memset(pinned.as(), 1, largest);
    rates.h2d_pinned = curve_of(up, {device.as(), pinned.as(), cudaMemcpyHostToDevice}, largest);
    rates.d2h_pinned = curve_of(up, {pinned.as(), device.as(), cudaMemcpyDeviceToHost}, largest);
    copy_both_ways(pinned, device, up, down, while_copying);
  }
  rates.h2d_pageable = pageable_curve(up, device.as(), largest);
  return rates;
}

}  // namespace rigcast::probe
