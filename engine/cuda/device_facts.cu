#include "engine/cuda/device_facts.cuh"

#include <array>
#include <mutex>

#include "engine/cuda/cuda_buffer.cuh"
#include "engine/cuda/cuda_call.cuh"

namespace rigcast::engine {
namespace {

constexpr int kMinCapability = 75;  // tensor cores, dp4a and ldmatrix
constexpr std::size_t kMaxDevices = 64;

// Compiled for the same capabilities as every kernel of the program: the driver chooses the same
// code for all of them.
__global__ void tell_capability([[maybe_unused]] int* compiled_for) {
#if defined(__CUDA_ARCH__)
#if __CUDA_ARCH__ < 750
#error "kernels need compute capability 7.5 or later"
#endif
  *compiled_for = __CUDA_ARCH__ / 10;
#endif
}

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  RIGCAST_CUDA_CALL(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

int capability_of(int device) {
  return 10 * attribute(cudaDevAttrComputeCapabilityMajor, device) +
         attribute(cudaDevAttrComputeCapabilityMinor, device);
}

std::string version_text(int capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

std::string name_of(int device) {
  cudaDeviceProp properties{};
  RIGCAST_CUDA_CALL(cudaGetDeviceProperties(&properties, device));
  return properties.name;
}

std::string refusal(int device, cudaError_t code) {
  const int capability = capability_of(device);
  const std::string card = name_of(device) + " has compute capability " + version_text(capability);
  if (capability < kMinCapability)
    return card + ", and kernels need " + version_text(kMinCapability) +
           " (Turing: GTX 16, RTX 20) or later";
  return card +
         ", and no GPU code in this program fits it (built for " RIGCAST_CUDA_ARCHITECTURES "; " +
         cudaGetErrorString(code) +
         "): build with -DRIGCAST_CUDA_ARCHITECTURES=" + std::to_string(capability);
}

// What the code that was chosen says of itself, or why there is none. The device is current.
cudaError_t chosen_code(int& compiled_for) {
  const DeviceBuffer told(sizeof(int));
  tell_capability<<<1, 1>>>(told.as<int>());
  if (const cudaError_t code = cudaGetLastError(); code != cudaSuccess) return code;
  RIGCAST_CUDA_CALL(cudaMemcpy(&compiled_for, told.as(), sizeof(int), cudaMemcpyDeviceToHost));
  return cudaSuccess;
}

DeviceFacts facts_of(int device) {
  DeviceFacts facts;
  if (const cudaError_t code = chosen_code(facts.compiled_for); code != cudaSuccess)
    throw MachineError(refusal(device, code));
  facts.capability = capability_of(device);
  facts.multiprocessors = attribute(cudaDevAttrMultiProcessorCount, device);
  facts.block_shared_bytes = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  facts.multiprocessor_shared_bytes =
      attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor, device);
  facts.integrated = attribute(cudaDevAttrIntegrated, device) != 0;
  return facts;
}

}  // namespace

const DeviceFacts& device_facts() {
  static std::array<std::once_flag, kMaxDevices> asked;
  static std::array<DeviceFacts, kMaxDevices> facts;
  int device = 0;
  RIGCAST_CUDA_CALL(cudaGetDevice(&device));
  const auto i = static_cast<std::size_t>(device);
  RIGCAST_ASSERT(i < kMaxDevices);
  std::call_once(asked[i], [&] { facts[i] = facts_of(device); });
  return facts[i];
}

std::optional<std::string> gpu_unsupported_reason(int device) try {
  RIGCAST_CUDA_CALL(cudaSetDevice(device));
  device_facts();
  return std::nullopt;
} catch (const MachineError& e) {
  return e.what();
}

}  // namespace rigcast::engine
