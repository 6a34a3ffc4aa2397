#include "engine/backends/cuda/check/checked_models.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "core/model/quant_mix.hpp"
#include "engine/architectures/architecture.hpp"
#include "engine/model/recurrent_mixers.hpp"

namespace rigcast::engine {
namespace {

constexpr int kLayers = 3;
// Formats that files of any publisher may have. Those behind them are checked when a model has
// them: a card that fails one runs all other models.
constexpr int kGeneralFormats = int(QuantFormat::kMXFP4) + 1;

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

Result<CheckedModel> in_f16(const ModelSpec& spec) {
  const auto mix = QuantMix::from_name("F16");
  if (!mix) return mix.error();
  auto table = make_tensor_table(spec, *mix);
  if (!table) return table.error();
  return CheckedModel{spec.moe ? "with experts" : "without experts", spec, *std::move(table)};
}

// Traits that the models without a family of their own do not have.
bool has_other_traits(const ModelSpec& m) {
  const Architecture* const a = find_architecture(m.architecture);
  return !a || a->norms != NormPlan::kBefore || a->activation != FfnActivation::kSilu ||
         a->rotates || a->scales_queries || a->set_usual || m.recurrent || m.fused_qkv ||
         m.fused_gate_up || m.qk_norm_wide || m.rope_factors > 0 || m.output_bias ||
         (m.moe && (m.moe->shared_ffn > 0 || m.moe->router_bias));
}

// As many heads as fill blocks of 256 weights.
int heads_for(std::int64_t head_dim) {
  int heads = 4;
  while (heads * head_dim % 256 != 0 && heads < 256) heads *= 2;
  return heads;
}

// The same traits, in layers enough for every n-th to differ, with a window that 256 tokens leave.
ModelSpec tiny_like(const ModelSpec& of) {
  constexpr int kLayersOfFamily = 8;
  ModelSpec m = of;
  const bool same_heads = of.kv_heads == of.heads;
  m.layers = std::min(of.layers, kLayersOfFamily);
  m.hidden = 256;
  m.heads = heads_for(of.head_dim);
  m.kv_heads = same_heads ? m.heads : m.heads / 2;
  m.ffn = of.ffn > 0 ? 512 : 0;
  m.vocabulary = 256;
  m.context = 512;
  m.nextn_layers = 0;
  // Layers of every kind.
  if (!m.pattern.empty()) m.pattern.resize(std::size_t(m.layers));
  if (!m.pattern.empty() && m.pattern.find('*') == std::string::npos) m.pattern.back() = '*';
  if (m.window) m.window->tokens = std::min<std::int64_t>(m.window->tokens, 64);
  if (m.mla) {
    // Rows of whole blocks in every format.
    constexpr std::int64_t kRow = 256;
    m.hidden = 2 * kRow;  // at least a row of the cache
    if (m.mla->q_lora_rank > 0) m.mla->q_lora_rank = kRow;
    m.mla->kv_lora_rank = m.mla->qk_nope_dim = m.mla->v_dim = kRow;
    m.head_dim = kRow + m.mla->qk_rope_dim;
    m.kv_heads = m.heads;
  }
  // Layers before them keep a cache of each kind.
  if (m.shared_kv_layers > 0) m.shared_kv_layers = m.layers - (m.window ? m.window->full_every : 1);
  if (const auto widths = of.recurrent ? mixer_widths(of) : std::nullopt) {
    RecurrentLayers own = recurrent_layers(m, *widths);
    own.full_attention_every = of.recurrent->full_attention_every;
    own.parallel = of.recurrent->parallel;
    std::ranges::copy_if(of.recurrent->attention_layers, std::back_inserter(own.attention_layers),
                         [&](int layer) { return layer < m.layers; });
    m.recurrent = std::move(own);
  }
  if (!m.moe) return m;
  // All are used, as above. Llama 4 weighs what its one expert reads.
  m.moe->experts = m.moe->experts_used = std::min(of.moe->experts_used, 4);
  m.moe->expert_ffn = 512;
  if (m.moe->shared_ffn > 0) m.moe->shared_ffn = 512;
  m.moe->dense_layers = std::min(m.moe->dense_layers, 1);
  return m;
}

// A model whose matrices go through all formats, one after the other.
Result<CheckedModel> of_mixed_formats(bool experts) {
  auto model = in_f16(tiny_spec(experts));
  if (!model) return model;
  int next = 0;
  for (Tensor& t : model->table.tensors)
    if (is_matrix(t)) set_format(t, static_cast<QuantFormat>(next++ % kGeneralFormats));
  return model;
}

std::vector<QuantFormat> quantized_formats() {
  std::vector<QuantFormat> formats;
  for (int f = 0; f < kGeneralFormats; ++f)
    if (const auto format = static_cast<QuantFormat>(f); info(format).block_elements > 1)
      formats.push_back(format);
  return formats;
}

// A model whose layers have `formats` in order; matrices outside of layers have the first.
Result<CheckedModel> of_layers(const ModelSpec& spec, std::span<const QuantFormat> formats) {
  auto model = in_f16(spec);
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
      auto layers = of_layers(tiny_spec(experts), std::span(formats).subspan(first, count));
      if (!layers) return layers.error();
      models.push_back(*std::move(layers));
    }
  }
  return models;
}

Result<std::optional<CheckedModel>> checked_model_like(const ModelSpec& spec,
                                                       const TensorTable& tensors) {
  std::vector<QuantFormat> formats;
  bool is_rare = false;
  for (const Tensor& t : tensors.tensors) {
    if (!is_matrix(t) || std::ranges::find(formats, t.format) != formats.end()) continue;
    formats.push_back(t.format);
    is_rare |= int(t.format) >= kGeneralFormats;
  }
  if (!is_rare && !has_other_traits(spec)) return std::optional<CheckedModel>();
  auto model = of_layers(tiny_like(spec), formats);
  if (!model) return model.error();
  model->what =
      fmt::format("of {} with heads of {}, {}", spec.architecture, spec.head_dim, model->what);
  return std::optional(*std::move(model));
}

}  // namespace rigcast::engine
