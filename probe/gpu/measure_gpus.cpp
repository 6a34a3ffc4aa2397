#include "probe/gpu/measure_gpus.hpp"

#include <fmt/format.h>

#include <functional>
#include <new>
#include <stdexcept>

#include "engine/cuda/cuda_call.cuh"
#include "engine/cuda/device_facts.cuh"
#include "engine/cuda/gpu_count.cuh"
#include "probe/gpu/copy_rates.hpp"
#include "probe/gpu/gpu_context.hpp"
#include "probe/gpu/nvml.hpp"
#include "probe/gpu/vram_rates.hpp"

namespace rigcast::probe {
namespace {

constexpr const char* kPciDevices = "/sys/bus/pci/devices";

// The operating system's list is read first, because it knows the slot as well.
GpuLink link_now(const std::string& bus_id) {
  GpuLink link = read_gpu_link(kPciDevices, bus_id);
  return link.is_known() ? link : Nvml().link(bus_id);
}

// Reads what is known without a context.
void identify(int device, Gpu& gpu) {
  cudaDeviceProp properties{};
  RIGCAST_CUDA_CALL(cudaGetDeviceProperties(&properties, device));
  gpu.name = properties.name;
  gpu.memory = Bytes{double(properties.totalGlobalMem)};
  char id[32] = {};
  RIGCAST_CUDA_CALL(cudaDeviceGetPCIBusId(id, sizeof id, device));
  gpu.bus_id = id;
}

struct Part {
  const char* name;
  std::function<void()> measure;
};

// Returns false if the GPU no longer answers, so that nothing else can be measured.
bool measure_part(const Part& part, Gpu& gpu) {
  const auto note = [&](const std::string& why) {
    gpu.notes.push_back(fmt::format("{} not measured: {}", part.name, why));
  };
  static_cast<void>(cudaGetLastError());  // clears earlier errors
  try {
    part.measure();
  } catch (const engine::CudaFailure& failure) {
    const char* cause = failure.is_out_of_memory() ? "too little of its memory is free, " : "";
    note(std::string(cause) + failure.what());
    return cudaDeviceSynchronize() == cudaSuccess;
  } catch (const std::bad_alloc&) {
    note("too little of the host's memory is free");
  } catch (const std::runtime_error& missing) {
    note(missing.what());
  }
  return true;
}

Gpu measure_gpu(int device, const Progress& progress, const StopFlag& stop) {
  Gpu gpu;
  const auto look_at_link = [&] { gpu.link = link_now(gpu.bus_id); };
  const Part parts[] = {
      {"identity", [&] { identify(device, gpu); }},
      {"code",
       [&] {
         if (const auto refused = engine::gpu_unsupported_reason(device))
           throw MachineError(*refused);
       }},
      {"context", [&] { measure_context(device, gpu); }},
      {"copies", [&] { gpu.copies = measure_copies(look_at_link); }},
      {"memory", [&] { gpu.vram_read = measure_vram(); }},
  };
  for (const Part& part : parts) {
    stop.throw_if_requested();
    progress(fmt::format("GPU {}, {} ...", device, part.name));
    if (!measure_part(part, gpu)) break;
  }
  static_cast<void>(cudaDeviceReset());  // frees all of the GPU's memory
  return gpu;
}

}  // namespace

Gpus measure_gpus(const Progress& progress, const StopFlag& stop) {
  Gpus gpus;
  const int count = engine::count_gpus(gpus.none);
  for (int device = 0; device < count; ++device)
    gpus.found.push_back(measure_gpu(device, progress, stop));
  progress("");
  return gpus;
}

}  // namespace rigcast::probe
