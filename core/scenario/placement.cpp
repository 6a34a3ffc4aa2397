#include "core/scenario/placement.hpp"

#include <algorithm>
#include <numeric>

namespace rigcast {
namespace {

// Shares of the GPU layers by GPU, as running sums that end at 1.
std::vector<double> split_points(const Rig& rig, std::vector<double> shares) {
  if (shares.empty())
    for (std::size_t g = 0; g < rig.gpus.size(); ++g) shares.push_back(rig.usable_vram(g).value);
  std::partial_sum(shares.begin(), shares.end(), shares.begin());
  const double sum = shares.empty() ? 0.0 : shares.back();
  for (double& share : shares) share = sum > 0 ? share / sum : 1.0;
  if (!shares.empty()) shares.back() = 1.0;
  return shares;
}

// The GPU of the i-th of n units (layers, then the head) that are on GPUs.
DeviceIndex gpu_of(const std::vector<double>& points, int i, int n) {
  const double at = (i + 0.5) / n;
  const auto it = std::upper_bound(points.begin(), points.end() - 1, at);
  return DeviceIndex(it - points.begin());
}

}  // namespace

bool Placement::streams_weights(int layer) const {
  const LayerPlacement& l = layers[std::size_t(layer)];
  return l.weights == kHost && l.decode_on != kHost;
}

bool Placement::host_decodes() const {
  return head_on == kHost &&
         std::ranges::all_of(layers, [](const LayerPlacement& l) { return l.decode_on == kHost; });
}

bool Placement::offloadable(int layer) const {
  const LayerPlacement& l = layers[std::size_t(layer)];
  return l.weights == kHost && l.decode_on == kHost && l.prefill_on != kHost && !host_decodes();
}

std::vector<DeviceIndex> split_over_gpus(const Rig& rig, const std::vector<double>& tensor_split,
                                         int units) {
  if (rig.gpus.empty()) return std::vector<DeviceIndex>(std::size_t(units), kHost);
  const std::vector<double> points = split_points(rig, tensor_split);
  std::vector<DeviceIndex> devices;
  for (int i = 0; i < units; ++i) devices.push_back(gpu_of(points, i, units));
  return devices;
}

bool head_is_first(const Scenario& s) {
  if (!s.runtime.head_first_since) return false;
  const double since = s.runtime.head_first_since->value;
  return s.settings.build_year.value_or(since) >= since;
}

int layers_without_head(const Scenario& s, int gpu_layers) {
  return std::min(s.model.layers, gpu_layers - (head_is_first(s) && gpu_layers > 0 ? 1 : 0));
}

Placement place(const Scenario& s, int gpu_layers) {
  return place(s, gpu_layers, s.placement.cpu_moe_layers);
}

Placement place(const Scenario& s, int gpu_layers, int cpu_moe_layers) {
  const int layers = s.model.layers;
  const bool has_gpu = !s.rig.gpus.empty();
  const int wanted = has_gpu ? std::clamp(gpu_layers, 0, layers + 1) : 0;
  const std::vector<DeviceIndex> gpu = split_over_gpus(s.rig, s.placement.tensor_split, wanted);
  const int without_head = layers_without_head(s, wanted);
  const int first = layers - without_head;
  const int ubatch = int(std::min<TokenCount>(s.settings.ubatch, s.workload.prompt_tokens));
  const DecodeDevice decode = s.placement.decode_device;
  const bool gpu_decodes =
      decode == DecodeDevice::kGpu || (wanted > 0 && decode == DecodeDevice::kPlacement);
  const bool prefill_streams = has_gpu && s.settings.op_offload && s.runtime.prefill.streams &&
                               (gpu_decodes || s.runtime.prefill.streams_alone) &&
                               s.settings.backend != Backend::kMetal &&
                               ubatch >= s.runtime.prefill.stream_min_batch;

  Placement p;
  p.gpu_layers = wanted;
  p.cpu_moe_layers = cpu_moe_layers;
  for (int layer = 0; layer < layers; ++layer) {
    LayerPlacement l;
    if (layer >= first) l.weights = gpu[std::size_t(layer - first)];
    const bool cpu_experts =
        layer < (s.model.is_moe_layer(layer) ? cpu_moe_layers : s.placement.cpu_ffn_layers);
    l.experts = cpu_experts ? kHost : l.weights;
    const DeviceIndex computes = l.weights == kHost && has_gpu ? 0 : l.weights;
    l.prefill_on = l.weights == kHost && !prefill_streams ? kHost : computes;
    l.decode_on = l.weights;
    if (s.placement.decode_device == DecodeDevice::kGpu) l.decode_on = computes;
    if (s.placement.decode_device == DecodeDevice::kCpu) l.decode_on = kHost;
    l.decode_experts_on = cpu_experts ? kHost : l.decode_on;
    const bool host_cache = keeps_cache_in_ram(s.kv.policy);
    const bool cpu_decode = s.placement.decode_device == DecodeDevice::kCpu;
    l.kv = host_cache || cpu_decode ? kHost : l.decode_on;
    l.decode_cache_on = cpu_attends(s) ? kHost : l.decode_on;
    p.layers.push_back(l);
  }
  if (wanted > without_head) p.head = gpu.back();
  p.head_on = s.placement.decode_device == DecodeDevice::kCpu ? kHost : p.head;
  return p;
}

}  // namespace rigcast
