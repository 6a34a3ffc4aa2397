#include "engine/backends/cuda/recurrent/device_states.cuh"

#include "engine/cuda/cuda_call.cuh"

namespace rigcast::engine::cuda {
namespace {

// States of layers begin at multiples of 256 bytes.
constexpr std::size_t kLine = 64;

// That of the spec, and what was convolved of one token more: as many as the convolution has taps.
std::size_t floats_of(const Model& model, const Layer& layer) {
  const std::int64_t heads = layer.mixer.inner_size * layer.mixer.state_size;
  const std::int64_t channels = heads > 0 ? layer.mixer.convolved() : model.spec.hidden;
  const auto floats = std::size_t(heads + layer.mixer.conv_kernel * channels);
  return (floats + kLine - 1) / kLine * kLine;
}

}  // namespace

DeviceStates::DeviceStates(Vram& vram, const Stream& stream, const Model& model,
                           const std::vector<int>& layers, int count)
    : stream_(stream), begin_(model.layers.size()) {
  for (const int layer : layers) {
    begin_[std::size_t(layer)] = floats_;
    floats_ += floats_of(model, model.layers[std::size_t(layer)]);
  }
  if (empty()) return;
  memory_ = vram.allocate(floats_ * std::size_t(count) * sizeof(float), "recurrent states");
  RIGCAST_CUDA_CALL(cudaMemsetAsync(memory_.as(), 0, memory_.bytes(), stream.get()));
}

void DeviceStates::clear(int state) {
  if (empty()) return;
  RIGCAST_CUDA_CALL(cudaMemsetAsync(at(state), 0, floats_ * sizeof(float), stream_.get()));
}

void DeviceStates::copy(int from, int to) {
  if (empty()) return;
  RIGCAST_CUDA_CALL(cudaMemcpyAsync(at(to), at(from), floats_ * sizeof(float),
                                    cudaMemcpyDeviceToDevice, stream_.get()));
}

}  // namespace rigcast::engine::cuda
