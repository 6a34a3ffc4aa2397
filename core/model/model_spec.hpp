#pragma once
// Architecture facts of a model: what is needed to compute its tensors, KV bytes and FLOPs.
// Schema and meaning of every key: models/README.md.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/units.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast {

struct SlidingWindow {
  std::int64_t tokens = 0;
  int full_every = 0;              // every n-th layer sees all tokens; 0: no layer does
  std::int64_t full_head_dim = 0;  // in those layers, where it differs; 0: the model's
  int full_kv_heads = 0;
  bool full_key_is_value = false;  // those layers have no v matrix
};

struct MixtureOfExperts {
  int experts = 0;
  int experts_used = 0;
  std::int64_t expert_ffn = 0;
  std::int64_t shared_ffn = 0;
  bool shared_gate = false;
  int dense_layers = 0;
  int every = 1;
  bool router_bias = false;
  bool expert_bias = false;
};

struct LatentAttention {
  std::int64_t q_lora_rank = 0;  // 0: queries are not compressed
  std::int64_t kv_lora_rank = 0;
  std::int64_t qk_nope_dim = 0;
  std::int64_t qk_rope_dim = 0;
  std::int64_t v_dim = 0;
  bool caches_values = false;  // the runtime keeps the compressed values apart from the keys that
                               // contain them
};

/// Sparse attention: an indexer scores all cached tokens, and keeps a key of its own for each.
struct SparseIndexer {
  std::int64_t key_dim = 0;
  int first_layer = 0;      // from this layer on ...
  std::vector<int> layers;  // ... or, if there are any, in these
  bool operator==(const SparseIndexer&) const = default;
};

/// Files that somebody made by a recipe for this model alone.
struct PublishedFile {
  std::string quant;  // as its maker calls it, "UD-Q4_K_XL"
  Bytes size;
  std::vector<std::string> of;  // names of the releases that it holds for; empty: for all
};

/// Hybrid models: most layers keep a fixed state in place of a growing cache.
struct RecurrentLayers {
  int full_attention_every = 0;
  std::vector<int> attention_layers;
  bool parallel = false;  // attention and mixer side by side in every layer
  std::int64_t state_bytes = 0;
  std::int64_t layer_parameters = 0;
  std::int64_t layer_f32_parameters = 0;
};

struct ModelSpec {
  // Compiled once: inline, they were half of the code of sources that hold one.
  ModelSpec();
  ModelSpec(const ModelSpec&);
  ModelSpec(ModelSpec&&) noexcept;
  ModelSpec& operator=(const ModelSpec&);
  ModelSpec& operator=(ModelSpec&&) noexcept;
  ~ModelSpec();

  std::string id;
  std::string name;   // for people; where found by an alias, the alias
  std::string alias;  // by which it was found, as its file writes it; empty: by id or name
  std::string architecture;
  std::string source;
  std::vector<std::string> aliases;
  std::string released;
  std::string native;  // the format of most weights as published, "MXFP4"; empty: BF16

  int layers = 0;
  std::int64_t hidden = 0;
  int heads = 0;
  int kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t ffn = 0;
  std::int64_t vocabulary = 0;
  std::int64_t context = 0;

  bool tied_embeddings = false;
  bool qkv_bias = false;
  bool output_bias = false;
  bool qk_norm = false;
  bool fused_qkv = false;
  bool fused_gate_up = false;
  bool gated_ffn = true;
  bool ffn_bias = false;
  bool norm_bias = false;
  int norms_per_layer = 2;
  bool rope_freqs = false;
  std::int64_t rope_factors = 0;
  bool qk_norm_wide = false;
  bool attention_gate = false;
  bool attention_sinks = false;
  int shared_kv_layers = 0;
  std::int64_t layer_embedding = 0;
  bool layer_scale = false;
  int nextn_layers = 0;
  bool nextn_embeddings = false;
  std::string pattern;  // "M*E-": one block a layer

  std::optional<SlidingWindow> window;
  std::optional<MixtureOfExperts> moe;
  std::optional<LatentAttention> mla;
  std::optional<RecurrentLayers> recurrent;
  std::optional<SparseIndexer> indexer;
  std::vector<PublishedFile> published;

  /// What files of it are called: "qwq-32b", though its shape is that of qwen2.5-32b.
  std::string file_stem() const;

  /// Layers count from 0.
  bool has_attention(int layer) const;
  bool has_recurrent_mixer(int layer) const;
  bool has_ffn(int layer) const;  // dense or a mixture of experts
  bool is_moe_layer(int layer) const;
  /// The layer's FFN is beside its attention: both read the layer's only norm.
  bool has_parallel_ffn(int layer) const;
  /// The layer keeps a KV cache that grows with the tokens (up to its window).
  bool has_kv(int layer) const;
  bool has_indexer(int layer) const;
  /// No window bounds the layer's attention.
  bool sees_all_tokens(int layer) const;
  std::int64_t head_dim_of(int layer) const;
  int kv_heads_of(int layer) const;
  /// Tokens that the layer's attention sees when `cached` are in the context; 0 without attention.
  std::int64_t attended_tokens(int layer, std::int64_t cached) const;
};

/// Reads a spec from an open table; errors land in the table's document.
ModelSpec read_model_spec(const TomlTable& table, std::string id);
Result<ModelSpec> load_model_spec(const std::filesystem::path& file);

}  // namespace rigcast
