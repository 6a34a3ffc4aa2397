#include "engine/cuda/gpu_count.cuh"

#include <cuda_runtime.h>

#include <cstdlib>

#include "engine/cuda/environment.hpp"

namespace rigcast::engine {
namespace {

// A list of GPUs that ends at the first that is not there, or is empty, hides the others.
std::string hidden_text() {
  const char* shown = std::getenv("CUDA_VISIBLE_DEVICES");
  return shown ? ": CUDA_VISIBLE_DEVICES is \"" + std::string(shown) + "\"" : "";
}

}  // namespace

std::string cuda_version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

int count_gpus(std::string& why) {
  ignore_launch_blocking();
  int driver = 0, count = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    why = "no NVIDIA driver is installed, or it cannot be reached from here";
    return 0;
  }
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaErrorInsufficientDriver)
    why = "the driver is for CUDA " + cuda_version_text(driver) + ", this build needs " +
          cuda_version_text(CUDART_VERSION) + ": update the driver";
  else if (code == cudaErrorNoDevice || (code == cudaSuccess && count == 0))
    why = "the NVIDIA driver finds no GPU" + hidden_text();
  else if (code != cudaSuccess)
    why = std::string("the NVIDIA driver does not start: ") + cudaGetErrorString(code);
  return why.empty() ? count : 0;
}

}  // namespace rigcast::engine
