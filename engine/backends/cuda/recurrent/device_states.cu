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
    : vram_(vram), stream_(stream), model_(model), count_(count), places_(model.layers.size()) {
  own_ = make_part(layers, false);
}

DeviceStates::Part DeviceStates::make_part(const std::vector<int>& layers, bool added) {
  Part part;
  for (const int layer : layers) {
    places_[std::size_t(layer)] = {part.floats, added};
    part.floats += floats_of(model_, model_.layers[std::size_t(layer)]);
  }
  if (layers.empty()) return part;
  part.memory =
      vram_.allocate(part.floats * std::size_t(count_) * sizeof(float), "recurrent states");
  RIGCAST_CUDA_CALL(cudaMemsetAsync(part.memory.as(), 0, part.memory.bytes(), stream_.get()));
  return part;
}

void DeviceStates::add(const std::vector<int>& layers) {
  remove_added();
  added_ = make_part(layers, true);
}

void DeviceStates::remove_added() { added_ = {}; }

void DeviceStates::clear(int state) {
  for (const Part* const p : {&own_, &added_})
    if (p->floats > 0)
      RIGCAST_CUDA_CALL(cudaMemsetAsync(p->at(state), 0, p->floats * sizeof(float), stream_.get()));
}

void DeviceStates::copy(int from, int to) {
  for (const Part* const p : {&own_, &added_})
    if (p->floats > 0)
      RIGCAST_CUDA_CALL(cudaMemcpyAsync(p->at(to), p->at(from), p->floats * sizeof(float),
                                        cudaMemcpyDeviceToDevice, stream_.get()));
}

}  // namespace rigcast::engine::cuda
