#pragma once
// Vectors that are copied to the GPU's memory and back.

#include <cstring>
#include <span>
#include <vector>

#include "engine/cuda/cuda_buffer.cuh"
#include "engine/cuda/cuda_stream.cuh"

namespace rigcast::fixtures {

/// Values on the GPU. Unwritten memory holds NaNs, or odd integers.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(std::size_t count) : count_(count), buffer_(count * sizeof(T) + 1) {
    RIGCAST_CUDA_CALL(cudaMemset(buffer_.as(), 0xFF, buffer_.bytes()));
    wait();
  }
  explicit OnDevice(std::span<const T> values) : OnDevice(values.size()) {
    RIGCAST_CUDA_CALL(
        cudaMemcpy(buffer_.as(), values.data(), values.size_bytes(), cudaMemcpyHostToDevice));
    wait();
  }
  explicit OnDevice(const std::vector<T>& values) : OnDevice(std::span<const T>(values)) {}

  T* get() const { return buffer_.as<T>(); }
  std::size_t size() const { return count_; }
  /// The values after all work has ended.
  std::vector<T> read() const {
    RIGCAST_CUDA_CALL(cudaDeviceSynchronize());
    std::vector<T> out(count_);
    RIGCAST_CUDA_CALL(
        cudaMemcpy(out.data(), buffer_.as(), count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return out;
  }

 private:
  // Both calls above may return before the GPU is done, and other streams do not wait for them.
  static void wait() { RIGCAST_CUDA_CALL(cudaDeviceSynchronize()); }

  std::size_t count_;
  engine::DeviceBuffer buffer_;
};

}  // namespace rigcast::fixtures
