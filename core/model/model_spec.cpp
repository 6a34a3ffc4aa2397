#include "core/model/model_spec.hpp"

#include <algorithm>

#include "core/text/nearest_name.hpp"

namespace rigcast {
namespace {

constexpr std::int64_t kMaxWidth = 1 << 24;
constexpr std::int64_t kMaxTokens = 1ll << 32;

SlidingWindow read_window(const TomlTable& t) {
  SlidingWindow w;
  w.tokens = t.integer("tokens", 1, kMaxTokens);
  w.full_every = int(t.integer_or("full_every", 0, 0, 1000));
  w.full_head_dim = t.integer_or("full_head_dim", 0, 0, 65536);
  w.full_kv_heads = int(t.integer_or("full_kv_heads", 0, 0, 65536));
  w.full_key_is_value = t.flag("full_key_is_value", false);
  t.finish();
  return w;
}

MixtureOfExperts read_moe(const TomlTable& t, int layers) {
  MixtureOfExperts m;
  m.experts = int(t.integer("experts", 1, 65536));
  m.experts_used = int(t.integer("experts_used", 1, m.experts));
  m.expert_ffn = t.integer("expert_ffn", 1, kMaxWidth);
  m.shared_ffn = t.integer_or("shared_ffn", 0, 0, kMaxWidth);
  m.shared_gate = t.flag("shared_gate", false);
  m.dense_layers = int(t.integer_or("dense_layers", 0, 0, layers));
  m.every = int(t.integer_or("every", 1, 1, 1000));
  m.router_bias = t.flag("router_bias", false);
  m.expert_bias = t.flag("expert_bias", false);
  t.finish();
  return m;
}

LatentAttention read_mla(const TomlTable& t) {
  LatentAttention m;
  m.q_lora_rank = t.integer_or("q_lora_rank", 0, 0, kMaxWidth);
  m.kv_lora_rank = t.integer("kv_lora_rank", 1, kMaxWidth);
  m.qk_nope_dim = t.integer("qk_nope_dim", 1, kMaxWidth);
  m.qk_rope_dim = t.integer("qk_rope_dim", 1, kMaxWidth);
  m.v_dim = t.integer("v_dim", 1, kMaxWidth);
  t.finish();
  return m;
}

RecurrentLayers read_recurrent(const TomlTable& t, int layers) {
  RecurrentLayers r;
  r.full_attention_every = int(t.integer("full_attention_every", 0, 1000));
  for (const double layer : t.numbers("attention_layers", 0, layers - 1))
    r.attention_layers.push_back(int(layer));
  r.parallel = t.flag("parallel", false);
  r.state_bytes = t.integer("state_bytes", 0, 1ll << 40);
  r.layer_parameters = t.integer("layer_parameters", 0, 1ll << 40);
  r.layer_f32_parameters = t.integer_or("layer_f32_parameters", 0, 0, r.layer_parameters);
  t.finish();
  return r;
}

SparseIndexer read_indexer(const TomlTable& t, int layers) {
  SparseIndexer s;
  s.key_dim = t.integer("key_dim", 1, kMaxWidth);
  s.first_layer = int(t.integer_or("first_layer", 0, 0, layers - 1));
  for (const double layer : t.numbers("layers", 0, layers - 1)) s.layers.push_back(int(layer));
  t.finish();
  return s;
}

// Sizes of one source, by the names of the quants.
void read_published(const TomlTable& t, std::vector<PublishedFile>& to) {
  t.text("source");
  const std::vector<std::string> of = t.texts("of");
  const TomlTable sizes = t.table("sizes");
  for (const std::string& quant : sizes.keys())
    if (const auto size = sizes.find_figure<Bytes>(quant, 1_MiB, Bytes{1e15}))
      to.push_back({quant, size->value, of});
  sizes.finish();
  t.finish();
}

// 1-based multiples of n: layers n-1, 2n-1, ...
bool every_nth(int layer, int n) { return n > 0 && (layer + 1) % n == 0; }

}  // namespace

ModelSpec::ModelSpec() = default;
ModelSpec::ModelSpec(const ModelSpec&) = default;
ModelSpec::ModelSpec(ModelSpec&&) noexcept = default;
ModelSpec& ModelSpec::operator=(const ModelSpec&) = default;
ModelSpec& ModelSpec::operator=(ModelSpec&&) noexcept = default;
ModelSpec::~ModelSpec() = default;

std::string ModelSpec::file_stem() const { return alias.empty() ? id : as_id(alias); }

bool ModelSpec::has_attention(int layer) const {
  if (!pattern.empty()) return pattern[std::size_t(layer)] == '*';
  if (!recurrent || recurrent->parallel) return true;
  return every_nth(layer, recurrent->full_attention_every) ||
         std::ranges::find(recurrent->attention_layers, layer) != recurrent->attention_layers.end();
}

bool ModelSpec::has_recurrent_mixer(int layer) const {
  if (!pattern.empty()) return pattern[std::size_t(layer)] == 'M';
  return recurrent && (recurrent->parallel || !has_attention(layer));
}

bool ModelSpec::has_ffn(int layer) const {
  if (pattern.empty()) return true;
  return pattern[std::size_t(layer)] == 'E' || pattern[std::size_t(layer)] == '-';
}

bool ModelSpec::has_parallel_ffn(int layer) const {
  return norms_per_layer == 1 && has_attention(layer) && has_ffn(layer);
}

bool ModelSpec::is_moe_layer(int layer) const {
  if (!pattern.empty()) return pattern[std::size_t(layer)] == 'E';
  return moe && layer >= moe->dense_layers && every_nth(layer, moe->every);
}

bool ModelSpec::has_kv(int layer) const {
  return has_attention(layer) && layer < layers - shared_kv_layers;
}

bool ModelSpec::has_indexer(int layer) const {
  if (!indexer || !has_kv(layer)) return false;
  if (indexer->layers.empty()) return layer >= indexer->first_layer;
  return std::ranges::find(indexer->layers, layer) != indexer->layers.end();
}

bool ModelSpec::sees_all_tokens(int layer) const {
  return !window || every_nth(layer, window->full_every);
}

std::int64_t ModelSpec::head_dim_of(int layer) const {
  const bool own = window && window->full_head_dim > 0 && sees_all_tokens(layer);
  return own ? window->full_head_dim : head_dim;
}

int ModelSpec::kv_heads_of(int layer) const {
  const bool own = window && window->full_kv_heads > 0 && sees_all_tokens(layer);
  return own ? window->full_kv_heads : kv_heads;
}

std::int64_t ModelSpec::attended_tokens(int layer, std::int64_t cached) const {
  if (!has_attention(layer)) return 0;
  return sees_all_tokens(layer) ? cached : std::min(cached, window->tokens);
}

ModelSpec read_model_spec(const TomlTable& t, std::string id) {
  ModelSpec m;
  m.id = std::move(id);
  m.name = t.text("name");
  m.architecture = t.text("architecture");
  m.source = t.text("source");
  m.aliases = t.texts("aliases");
  m.released = t.text_or("released", "");
  m.native = t.text_or("native", "");
  if (!m.native.empty()) t.text("native_source");
  m.layers = int(t.integer("layers", 1, 10'000));
  m.hidden = t.integer("hidden", 1, kMaxWidth);
  m.heads = int(t.integer("heads", 1, 65536));
  m.kv_heads = int(t.integer("kv_heads", 1, m.heads));
  m.head_dim = t.integer("head_dim", 1, 65536);
  m.ffn = t.integer_or("ffn", 0, 0, kMaxWidth);
  m.vocabulary = t.integer("vocabulary", 1, 1 << 28);
  m.context = t.integer("context", 1, kMaxTokens);
  m.tied_embeddings = t.flag("tied_embeddings", false);
  m.qkv_bias = t.flag("qkv_bias", false);
  m.output_bias = t.flag("output_bias", false);
  m.qk_norm = t.flag("qk_norm", false);
  m.fused_qkv = t.flag("fused_qkv", false);
  m.fused_gate_up = t.flag("fused_gate_up", false);
  m.gated_ffn = t.flag("gated_ffn", true);
  m.ffn_bias = t.flag("ffn_bias", false);
  m.norm_bias = t.flag("norm_bias", false);
  m.norms_per_layer = int(t.integer_or("norms_per_layer", 2, 0, 16));
  m.rope_freqs = t.flag("rope_freqs", false);
  m.rope_factors = t.integer_or("rope_factors", 0, 0, kMaxWidth);
  m.qk_norm_wide = t.flag("qk_norm_wide", false);
  m.attention_gate = t.flag("attention_gate", false);
  m.attention_sinks = t.flag("attention_sinks", false);
  m.shared_kv_layers = int(t.integer_or("shared_kv_layers", 0, 0, m.layers - 1));
  m.layer_embedding = t.integer_or("layer_embedding", 0, 0, kMaxWidth);
  m.layer_scale = t.flag("layer_scale", false);
  m.nextn_layers = int(t.integer_or("nextn_layers", 0, 0, 16));
  m.nextn_embeddings = t.flag("nextn_embeddings", false);
  m.pattern = t.text_or("pattern", "");
  if (t.has("window")) m.window = read_window(t.table("window"));
  if (t.has("moe")) m.moe = read_moe(t.table("moe"), m.layers);
  if (t.has("mla")) m.mla = read_mla(t.table("mla"));
  if (t.has("recurrent")) m.recurrent = read_recurrent(t.table("recurrent"), m.layers);
  if (t.has("indexer")) m.indexer = read_indexer(t.table("indexer"), m.layers);
  for (const TomlTable& source : t.tables("published")) read_published(source, m.published);
  if (!m.pattern.empty() && (m.pattern.size() != std::size_t(m.layers) ||
                             m.pattern.find_first_not_of("M*E-") != std::string::npos))
    t.refuse("pattern", "expected one of the letters M * E - for every layer");
  for (const char block : m.pattern) {
    if (block == 'E' && !m.moe) t.refuse("pattern", "'E' needs a [moe] table");
    if (block == 'M' && !m.recurrent) t.refuse("pattern", "'M' needs a [recurrent] table");
  }
  const bool dense_somewhere = m.pattern.empty()
                                   ? !m.moe || m.moe->dense_layers > 0 || m.moe->every > 1
                                   : m.pattern.find('-') != std::string::npos;
  if (dense_somewhere && m.ffn == 0)
    t.refuse("ffn", "a model with dense layers needs its FFN width");
  if (m.heads % m.kv_heads != 0)
    t.refuse("kv_heads", "query heads must be a multiple of the KV heads");
  t.finish();
  return m;
}

Result<ModelSpec> load_model_spec(const std::filesystem::path& file) {
  auto document = TomlDocument::read(file);
  if (!document) return document.error();
  ModelSpec spec = read_model_spec(document->root(), file.stem().string());
  if (auto error = document->error()) return *error;
  return spec;
}

}  // namespace rigcast
