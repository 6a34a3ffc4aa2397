#include "core/model/kv_bytes.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <vector>

#include "core/text/nearest_name.hpp"

namespace rigcast {
namespace {

// The types that llama.cpp offers as --cache-type-k and --cache-type-v.
constexpr std::array kKvTypes = {
    QuantFormat::kF32,    QuantFormat::kF16,  QuantFormat::kBF16, QuantFormat::kQ8_0,
    QuantFormat::kQ4_0,   QuantFormat::kQ4_1, QuantFormat::kQ5_0, QuantFormat::kQ5_1,
    QuantFormat::kIQ4_NL, QuantFormat::kFP8,
};

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return out;
}

std::int64_t latent_width(const LatentAttention& a) { return a.kv_lora_rank + a.qk_rope_dim; }

double row_bytes(QuantFormat f, std::int64_t elements) {
  const std::int64_t block = info(f).block_elements;
  return double((elements + block - 1) / block) * info(f).block_bytes;
}

bool holds(QuantFormat f, std::int64_t width) { return width % info(f).block_elements == 0; }

Error does_not_hold(QuantFormat f, std::string_view what, std::int64_t width) {
  return bad_input("KV type " + kv_type_name(f) + " has blocks of " +
                       std::to_string(info(f).block_elements) + " values, and a " +
                       std::string(what) + " of this model has " + std::to_string(width),
                   "f16 and bf16 hold any width");
}

}  // namespace

std::string kv_type_name(QuantFormat type) { return lower(info(type).name); }

std::string text(KvTypes types) {
  const std::string k = kv_type_name(types.k), v = kv_type_name(types.v);
  return k == v ? k : k + "/" + v;
}

Result<QuantFormat> kv_type_from(std::string_view name) {
  std::vector<std::string> names;
  for (const QuantFormat f : kKvTypes) {
    names.push_back(kv_type_name(f));
    if (names.back() == lower(name)) return f;
  }
  std::string hint = did_you_mean(lower(name), names);
  if (hint.empty()) {
    hint = "one of";
    for (const std::string& n : names) hint += " " + n;
  }
  return bad_input("unknown KV type \"" + std::string(name) + "\"", std::move(hint));
}

Result<KvTypes> check_kv_types(const ModelSpec& model, KvTypes types) {
  for (int i = 0; i < model.layers; ++i) {
    if (!model.has_kv(i)) continue;
    const std::int64_t width = model.mla ? latent_width(*model.mla) : model.head_dim_of(i);
    if (!holds(types.k, width)) return does_not_hold(types.k, "key", width);
    if (model.has_indexer(i) && !holds(types.k, model.indexer->key_dim))
      return does_not_hold(types.k, "key of the indexer", model.indexer->key_dim);
    const bool has_values = !model.mla || model.mla->caches_values;
    const std::int64_t values = model.mla ? model.mla->kv_lora_rank : width;
    if (has_values && !holds(types.v, values)) return does_not_hold(types.v, "value", values);
  }
  return types;
}

double kv_bytes_per_token(const ModelSpec& model, int layer, KvTypes types) {
  if (!model.has_kv(layer)) return 0.0;
  const double index = model.has_indexer(layer) ? row_bytes(types.k, model.indexer->key_dim) : 0.0;
  if (model.mla)
    return row_bytes(types.k, latent_width(*model.mla)) + index +
           (model.mla->caches_values ? row_bytes(types.v, model.mla->kv_lora_rank) : 0.0);
  const std::int64_t width = model.kv_heads_of(layer) * model.head_dim_of(layer);
  return row_bytes(types.k, width) + row_bytes(types.v, width) + index;
}

double kv_read_bytes_per_token(const ModelSpec& model, int layer, KvTypes types) {
  const double all = kv_bytes_per_token(model, layer, types);
  const bool twice = all > 0 && model.mla && model.mla->caches_values;
  return twice ? all - row_bytes(types.v, model.mla->kv_lora_rank) : all;
}

double state_bytes(const ModelSpec& model, int layer) {
  return model.has_recurrent_mixer(layer) ? double(model.recurrent->state_bytes) : 0.0;
}

double kv_bytes(const ModelSpec& model, int layer, TokenCount cached, KvTypes types) {
  return state_bytes(model, layer) +
         kv_bytes_per_token(model, layer, types) * double(model.attended_tokens(layer, cached));
}

double kv_bytes_per_token(const ModelSpec& model, KvTypes types) {
  double sum = 0.0;
  for (int i = 0; i < model.layers; ++i) sum += kv_bytes_per_token(model, i, types);
  return sum;
}

double kv_bytes_per_token_past_windows(const ModelSpec& model, KvTypes types) {
  double sum = 0.0;
  for (int i = 0; i < model.layers; ++i)
    if (model.sees_all_tokens(i)) sum += kv_bytes_per_token(model, i, types);
  return sum;
}

double kv_bytes(const ModelSpec& model, TokenCount cached, KvTypes types) {
  double sum = 0.0;
  for (int i = 0; i < model.layers; ++i) sum += kv_bytes(model, i, cached, types);
  return sum;
}

}  // namespace rigcast
