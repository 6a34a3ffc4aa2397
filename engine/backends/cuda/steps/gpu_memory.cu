#include "engine/backends/cuda/steps/gpu_memory.cuh"

#include "engine/cuda/cuda_call.cuh"

namespace rigcast::engine::cuda {

DeviceMemory gpu_memory(const Vram& vram) {
  std::size_t free = 0, total = 0;
  RIGCAST_CUDA_CALL(cudaMemGetInfo(&free, &total));
  DeviceMemory gpu{"GPU 0", Tier::kVram, {}, {}, {}, {}, {}, {}, {}};
  for (const Vram::Item& item : vram.items()) {
    if (item.name == "weights")
      gpu.weights += item.held;
    else if (item.name == "KV cache" || item.name == "recurrent states")
      gpu.kv += item.held;
    else if (item.name == "upload buffers" || item.name == "streamed weights" ||
             item.name == "staged KV cache" || item.name == "KV on its way")
      gpu.staging += item.held;
    else
      gpu.activations += item.held;
  }
  gpu.capacity = Bytes{double(total)};
  gpu.overhead = Bytes{double(total - free)} - vram.held();
  if (const auto limit = vram.limit(); limit && *limit < gpu.capacity) {
    gpu.capacity = *limit;
    gpu.overhead = {};  // the limit applies to the engine's own memory
  }
  return gpu;
}

}  // namespace rigcast::engine::cuda
