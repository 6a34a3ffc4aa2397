#include "core/hardware/merge_gpus.hpp"

#include <fmt/format.h>

#include <algorithm>

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

void merge(GpuPart& gpu, const SharedLayers& shared) {
  const int n = shared.gpus;
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
}

}  // namespace

void merge_gpus(Rig& rig, const SharedLayers& shared) {
  const int n = shared.gpus;
  if (n <= 1) return;
  const std::size_t groups = std::max<std::size_t>(1, rig.gpus.size() / std::size_t(n));
  rig.gpus.resize(groups);
  rig.links.resize(groups);
  for (GpuPart& gpu : rig.gpus) merge(gpu, shared);
  for (HostLink& link : rig.links)
    for (auto* rate : {&link.h2d, &link.d2h, &link.pageable}) multiply(*rate, n);
  multiply(rig.vram_reserved, n);
  multiply(rig.gpu_context, n);
}

}  // namespace rigcast
