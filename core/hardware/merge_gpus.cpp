#include "core/hardware/merge_gpus.hpp"

#include <fmt/format.h>

namespace rigcast {
namespace {

template <class T>
void multiply(Sourced<T>& figure, int by) {
  figure.value = figure.value * double(by);
}
template <class T>
void multiply(std::optional<Sourced<T>>& figure, int by) {
  if (figure) multiply(*figure, by);
}

}  // namespace

void merge_gpus(Rig& rig, const SharedLayers& shared) {
  const int n = shared.gpus;
  if (n <= 1) return;
  rig.gpus.resize(1);
  rig.links.resize(1);
  GpuPart& gpu = rig.gpus.front();
  gpu.name = fmt::format("{} x {}", n, gpu.name);
  multiply(gpu.memory, n);
  multiply(gpu.bandwidth, n);
  multiply(gpu.l2, n);
  for (auto* rate : {&gpu.fp16_tensor, &gpu.fp16_tensor_fp16acc, &gpu.int8_tensor, &gpu.fp32})
    multiply(*rate, n);
  if (gpu.units) *gpu.units *= n;
  multiply(gpu.board_power, n);
  multiply(gpu.price, n);
  gpu.shared = shared;
  HostLink& link = rig.links.front();
  for (auto* rate : {&link.h2d, &link.d2h, &link.pageable}) multiply(*rate, n);
  multiply(rig.vram_reserved, n);
  multiply(rig.gpu_context, n);
}

}  // namespace rigcast
