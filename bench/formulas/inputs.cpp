#include "bench/formulas/inputs.hpp"

#include <algorithm>

#include "core/scenario/placement.hpp"

namespace rigcast::formulas {

std::optional<QuantRow> quant_row(std::string_view quant) {
  if (quant == "F16" || quant == "BF16") return QuantRow::kF16;
  if (quant.starts_with("MXFP4")) return QuantRow::kMxfp4;
  if (quant.starts_with("I")) quant.remove_prefix(1);
  if (quant.size() < 2 || quant[0] != 'Q') return std::nullopt;
  switch (quant[1]) {
    case '8': return QuantRow::kQ8;
    case '6': return QuantRow::kQ6;
    case '5': return QuantRow::kQ5;
    case '4': return QuantRow::kQ4;
    case '3': return QuantRow::kQ3;
    case '2': return QuantRow::kQ2;
    default: return std::nullopt;
  }
}

ParameterCount parameter_count(const Scenario& s) {
  double experts = 0;
  for (const LayerWeights& layer : s.tensors.layers) experts += double(layer.experts.elements());
  ParameterCount count;
  count.total = double(s.tensors.elements()) - double(s.tensors.speculation.elements());
  count.active = count.total;
  if (s.model.moe)
    count.active -= experts * (1 - double(s.model.moe->experts_used) / s.model.moe->experts);
  return {count.total / 1e9, count.active / 1e9};
}

bool decodes_on_cpu(const Scenario& s) {
  return s.rig.gpus.empty() || s.placement.gpu_layers == 0 ||
         s.placement.decode_device == DecodeDevice::kCpu;
}

std::optional<double> placed_gpu_share(const Scenario& s) {
  if (!s.placement.gpu_layers && s.placement.cpu_moe_layers == 0) return std::nullopt;
  const Placement placed = place(s, s.placement.gpu_layers.value_or(s.model.layers + 1));
  double total = double(s.tensors.head.bytes());
  double on_gpu = placed.head == kHost ? 0 : total;
  for (std::size_t i = 0; i < placed.layers.size(); ++i) {
    const LayerWeights& w = s.tensors.layers[i];
    const double dense = double(w.attention.bytes() + w.ffn.bytes());
    const double experts = double(w.experts.bytes());
    total += dense + experts;
    if (placed.layers[i].weights != kHost) on_gpu += dense;
    if (placed.layers[i].experts != kHost) on_gpu += experts;
  }
  return on_gpu / total;
}

double vram_gib(const Rig& rig) {
  double sum = 0;
  for (const GpuPart& gpu : rig.gpus) sum += gpu.memory.value.value / kGiB;
  return sum;
}

const GpuPart& primary_gpu(const Rig& rig) {
  return *std::ranges::max_element(rig.gpus, {},
                                   [](const GpuPart& gpu) { return gpu.memory.value.value; });
}

}  // namespace rigcast::formulas
