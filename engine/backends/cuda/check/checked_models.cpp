#include "engine/backends/cuda/check/checked_models.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "core/model/quant_mix.hpp"

namespace rigcast::engine {
namespace {

constexpr int kLayers = 3;

// A tiny model, wide enough for quant blocks of 256 weights.
ModelSpec tiny_spec(bool experts) {
  ModelSpec m;
  m.id = m.name = "tiny";
  m.source = "made for the check of a GPU";
  m.architecture = experts ? "qwen3moe" : "llama";
  m.layers = kLayers;
  m.hidden = 256;
  m.heads = 4;
  m.kv_heads = 2;
  m.head_dim = 64;
  m.ffn = experts ? 0 : 512;
  m.vocabulary = 256;
  m.context = 512;
  m.qk_norm = experts;
  if (!experts) return m;
  m.moe.emplace();
  // All experts are used: otherwise a near tie of router scores could choose another expert without
  // any error.
  m.moe->experts = m.moe->experts_used = 4;
  m.moe->expert_ffn = 512;
  return m;
}

bool is_matrix(const Tensor& t) {
  return t.dimensions >= 2 && t.role != TensorRole::kRouter && t.role != TensorRole::kBias;
}

void set_format(Tensor& t, QuantFormat format) {
  t.format = format;
  t.bytes = tensor_bytes(format, t.shape[0], t.shape[1] * t.shape[2]);
}

Result<CheckedModel> in_f16(bool experts) {
  const ModelSpec spec = tiny_spec(experts);
  const auto mix = QuantMix::from_name("F16");
  if (!mix) return mix.error();
  auto table = make_tensor_table(spec, *mix);
  if (!table) return table.error();
  return CheckedModel{experts ? "with experts" : "without experts", spec, *std::move(table)};
}

// A model whose matrices go through all formats, one after the other.
Result<CheckedModel> of_mixed_formats(bool experts) {
  auto model = in_f16(experts);
  if (!model) return model;
  int next = 0;
  for (Tensor& t : model->table.tensors)
    if (is_matrix(t)) set_format(t, static_cast<QuantFormat>(next++ % kComputedFormatCount));
  return model;
}

std::vector<QuantFormat> quantized_formats() {
  std::vector<QuantFormat> formats;
  for (int f = 0; f < kComputedFormatCount; ++f)
    if (const auto format = static_cast<QuantFormat>(f); info(format).block_elements > 1)
      formats.push_back(format);
  return formats;
}

// A model whose layers have `formats` in order; matrices outside of layers have the first.
Result<CheckedModel> of_layers(bool experts, std::span<const QuantFormat> formats) {
  auto model = in_f16(experts);
  if (!model) return model;
  for (Tensor& t : model->table.tensors)
    if (is_matrix(t)) set_format(t, formats[std::size_t(std::max(t.layer, 0)) % formats.size()]);
  std::vector<std::string_view> names;
  for (const QuantFormat format : formats) names.push_back(info(format).name);
  model->what += fmt::format(", its layers of {},", fmt::join(names, ", "));
  return model;
}

}  // namespace

Result<std::vector<CheckedModel>> checked_models() {
  std::vector<CheckedModel> models;
  const std::vector<QuantFormat> formats = quantized_formats();
  for (const bool experts : {false, true}) {
    auto mixed_formats = of_mixed_formats(experts);
    if (!mixed_formats) return mixed_formats.error();
    models.push_back(*std::move(mixed_formats));
    for (std::size_t first = 0; first < formats.size(); first += kLayers) {
      const std::size_t count = std::min<std::size_t>(kLayers, formats.size() - first);
      auto layers = of_layers(experts, std::span(formats).subspan(first, count));
      if (!layers) return layers.error();
      models.push_back(*std::move(layers));
    }
  }
  return models;
}

}  // namespace rigcast::engine
