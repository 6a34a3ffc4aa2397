#include "engine/gguf/model/read_spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/text/nearest_name.hpp"
#include "engine/architectures/architecture.hpp"
#include "engine/gguf/clean_text.hpp"
#include "engine/gguf/model/check_layout.hpp"
#include "engine/gguf/model/tensor_name.hpp"
#include "engine/model/recurrent_mixers.hpp"

namespace rigcast::engine {
namespace {

constexpr std::int64_t kMaxLayers = 10'000;
constexpr std::int64_t kMaxHeads = 65'536;
constexpr std::int64_t kMaxWidth = 1 << 24;
constexpr std::int64_t kMaxTokens = 1ll << 32;
constexpr std::int64_t kMaxVocabulary = 1 << 28;
constexpr std::size_t kMaxArchitectureName = 64;

constexpr std::string_view kUseCatalogue =
    "such a model can be forecast by its name in the catalogue: rigcast list models";

// The period n of layers with full attention, for files without a key for it: every n-th layer
// attends to all tokens. llama.cpp has the same list of architectures.
int default_full_every(std::string_view architecture) {
  constexpr std::pair<std::string_view, int> kKnown[] = {
      {"gemma2", 2}, {"gemma3", 6},  {"gemma3n", 5}, {"cohere2", 4}, {"gemma4", 6},
      {"llama4", 4}, {"gpt-oss", 2}, {"olmo2", 4},   {"exaone4", 4}, {"exaone-moe", 4}};
  for (const auto& [name, every] : kKnown)
    if (name == architecture) return every;
  return 0;
}

// The window of files without a key for it; 0: they have none. nullopt: a file of this architecture
// without the key says too little, since layers with a window are otherwise than those without.
std::optional<std::int64_t> default_window(std::string_view architecture) {
  constexpr std::pair<std::string_view, std::int64_t> kKnown[] = {{"llama4", 8192},
                                                                  {"gemma2", 4096}};
  constexpr std::string_view kNeedIt[] = {"cohere2", "exaone-moe", "gemma4", "gpt-oss"};
  for (const auto& [name, tokens] : kKnown)
    if (name == architecture) return tokens;
  if (std::ranges::find(kNeedIt, architecture) != std::end(kNeedIt)) return std::nullopt;
  return 0;
}

class SpecReader {
 public:
  explicit SpecReader(const GgufFile& file) : file_(file), meta_(file.metadata(), file.name()) {}

  Result<ModelSpec> read() && {
    read_names();
    if (meta_.error()) return *meta_.error();
    index_traits();
    read_layers();
    read_heads();
    read_vocabulary();
    read_experts();
    read_pattern();
    read_ffn();
    read_window();
    read_latent_attention();
    read_indexer();
    read_traits();
    read_recurrent_layers();
    if (meta_.error()) return *meta_.error();
    if (auto error = check_layout(file_, spec_)) return *error;
    return std::move(spec_);
  }

 private:
  void read_names();
  void index_traits();
  void read_layers();
  void read_heads();
  void read_kv_heads();
  void read_head_widths();
  void read_vocabulary();
  void read_experts();
  void read_pattern();
  void read_ffn();
  void read_window();
  void read_full_layers(SlidingWindow& window);
  std::optional<int> full_every();
  std::optional<int> period_of(const Value& windowed);
  void read_latent_attention();
  void read_indexer();
  void read_traits();
  void read_recurrent_kv_heads(const std::vector<std::int64_t>& by_layer);
  void read_recurrent_layers();
  void read_mixers();
  int count_norms() const;

  std::string key(std::string_view end) const {
    return fmt::format("{}.{}", spec_.architecture, end);
  }
  // What the architecture has in recurrent layers, and whether it has a trait; one that is not
  // executed has none.
  Mixer mixer() const {
    const Architecture* const known = find_architecture(spec_.architecture);
    return known ? known->mixer : Mixer::kNone;
  }
  bool is(bool Architecture::*trait) const {
    const Architecture* const known = find_architecture(spec_.architecture);
    return known && known->*trait;
  }
  // The tensor of that name in the first layer that has it, or outside of layers.
  const TensorInfo* trait(std::string_view name) const {
    const auto at = traits_.find(name);
    return at == traits_.end() ? nullptr : at->second.second;
  }
  bool has(std::string_view name) const { return trait(name) != nullptr; }
  std::int64_t rows_of(std::string_view name) const {
    const TensorInfo* t = trait(name);
    return t ? std::int64_t(t->shape[1]) : 0;
  }

  const GgufFile& file_;
  MetadataReader meta_;
  ModelSpec spec_;
  std::map<std::string_view, std::pair<int, const TensorInfo*>> traits_;
  std::vector<std::int64_t> kv_heads_;  // by layer, where the file has it so
  std::int64_t full_head_dim_ = 0;      // of layers without a window, where it differs
};

void SpecReader::read_names() {
  const std::string_view architecture = meta_.text("general.architecture");
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  if (!meta_.error() && (architecture.empty() || architecture.size() > kMaxArchitectureName ||
                         !std::ranges::all_of(architecture, is_plain)))
    meta_.refuse(fmt::format("general.architecture is \"{}\", expected a word of a-z, 0-9, - and _",
                             clean_text(architecture.substr(0, kMaxArchitectureName))));
  spec_.architecture = architecture;
  const std::filesystem::path path(file_.name());
  const std::string stem = clean_text(path.stem().string());
  spec_.name = clean_text(meta_.text_or("general.name", ""));
  if (spec_.name.find_first_not_of(' ') == std::string::npos) spec_.name = stem;
  spec_.id = as_id(stem);
  if (spec_.id.empty()) spec_.id = "model";
  spec_.source = clean_text(path.filename().string());
}

void SpecReader::index_traits() {
  for (const TensorInfo& t : file_.tensors()) {
    const TensorName name = parse_tensor_name(t.name);
    const auto begin = std::size_t(name.stem.data() - t.name.data());
    const auto [at, fresh] = traits_.try_emplace(t.name.substr(begin), std::pair(name.layer, &t));
    if (!fresh && name.layer < at->second.first) at->second = {name.layer, &t};
    if (role_of(name, t.dimensions) == TensorRole::kRecurrent && mixer() == Mixer::kNone)
      return meta_.refuse(fmt::format("\"{}\": recurrent layers are not understood from a file",
                                      clean_text(t.name)),
                          std::string(kUseCatalogue));
  }
}

void SpecReader::read_layers() {
  const std::int64_t all = meta_.integer(key("block_count"), 1, kMaxLayers);
  spec_.nextn_layers =
      int(meta_.integer_or(key("nextn_predict_layers"), 0, 0, std::min<std::int64_t>(all - 1, 16)));
  spec_.layers = int(all) - spec_.nextn_layers;
  spec_.context = meta_.integer(key("context_length"), 1, kMaxTokens);
  spec_.shared_kv_layers =
      int(meta_.integer_or(key("attention.shared_kv_layers"), 0, 0, spec_.layers - 1));
}

void SpecReader::read_heads() {
  spec_.hidden = meta_.integer(key("embedding_length"), 1, kMaxWidth);
  spec_.heads = int(meta_.integer(key("attention.head_count"), 1, kMaxHeads));
  read_kv_heads();
  if (spec_.heads % spec_.kv_heads != 0)
    meta_.refuse(
        fmt::format("{} query heads are no multiple of {} KV heads", spec_.heads, spec_.kv_heads));
  if (meta_.has(key("attention.key_length"))) {
    spec_.head_dim = meta_.integer(key("attention.key_length"), 1, kMaxHeads);
  } else {
    spec_.head_dim = spec_.hidden / spec_.heads;
    if (spec_.hidden % spec_.heads != 0)
      meta_.refuse(
          fmt::format("an embedding of {} is no multiple of {} heads", spec_.hidden, spec_.heads),
          key("attention.key_length") + " would say how wide a head is");
  }
  if (!meta_.has(key("attention.kv_lora_rank"))) read_head_widths();
}

// Cached heads: one number, or, where layers may differ by their windows, one for each layer.
void SpecReader::read_kv_heads() {
  const std::string name = key("attention.head_count_kv");
  const Value* value = file_.metadata().find(name);
  const bool by_layer = value && value->type() == ValueType::kArray;
  const auto each = by_layer ? value->integers() : std::nullopt;
  if (each && mixer() != Mixer::kNone && mixer() != Mixer::kDeltaNet)
    return read_recurrent_kv_heads(*each);
  if (!by_layer || !meta_.has(key("attention.sliding_window"))) {
    spec_.kv_heads = int(meta_.integer_or(name, spec_.heads, 1, spec_.heads));
    return;
  }
  const bool sound = each && each->size() >= std::size_t(spec_.layers) &&
                     std::ranges::all_of(*each, [&](std::int64_t n) {
                       return n >= 1 && n <= spec_.heads && spec_.heads % n == 0;
                     });
  spec_.kv_heads = 1;
  if (!sound)
    return meta_.refuse(fmt::format("\"{}\" is not a number of heads for each layer", name),
                        std::string(kUseCatalogue));
  kv_heads_ = *each;
  spec_.kv_heads = int(kv_heads_.front());
}

// Keys and values are of one width, which may be another in layers with a window.
void SpecReader::read_head_widths() {
  const auto check = [&](const char* other, std::int64_t expected) {
    const std::int64_t width = meta_.integer_or(key(other), expected, 1, kMaxHeads);
    if (width != expected)
      meta_.refuse(fmt::format("\"{}\" is {} and keys are {} wide, which is not understood",
                               key(other), width, expected),
                   std::string(kUseCatalogue));
  };
  check("attention.value_length", spec_.head_dim);
  const std::int64_t local =
      meta_.integer_or(key("attention.key_length_swa"), spec_.head_dim, 1, kMaxHeads);
  check("attention.value_length_swa", local);
  if (local != spec_.head_dim) full_head_dim_ = std::exchange(spec_.head_dim, local);
}

// Files of some architectures give the number for every layer: 0 of a recurrent one.
void SpecReader::read_recurrent_kv_heads(const std::vector<std::int64_t>& by_layer) {
  const std::string name = key("attention.head_count_kv");
  spec_.recurrent.emplace();
  spec_.kv_heads = 1;  // if the numbers are refused
  std::int64_t found = 0;
  for (std::size_t i = 0; i < by_layer.size(); ++i) {
    const std::int64_t heads = by_layer[i];
    if (heads == 0) continue;
    if (heads < 0 || heads > spec_.heads || (found > 0 && heads != found))
      return meta_.refuse(
          fmt::format("\"{}\" has layers of {} and of {} heads", name, found, heads));
    found = heads;
    spec_.recurrent->attention_layers.push_back(int(i));
  }
  if (by_layer.size() != std::size_t(spec_.layers) || found == 0)
    meta_.refuse(fmt::format("\"{}\" has {} numbers, expected those of {} layers, one more than 0",
                             name, by_layer.size(), spec_.layers));
  if (found > 0) spec_.kv_heads = int(found);
}

void SpecReader::read_vocabulary() {
  const TensorInfo* embedding = file_.find_tensor("token_embd.weight");
  if (!embedding)
    return meta_.refuse("there is no token_embd.weight", "expected a model that reads tokens");
  const bool fits = embedding->dimensions == 2 &&
                    embedding->shape[0] == std::uint64_t(spec_.hidden) &&
                    embedding->shape[1] <= std::uint64_t(kMaxVocabulary);
  if (!fits)
    return meta_.refuse(fmt::format("token_embd.weight has the shape {}, expected rows of {}",
                                    shape_text(*embedding), spec_.hidden));
  spec_.vocabulary = std::int64_t(embedding->shape[1]);
  const Value* tokens = file_.metadata().find("tokenizer.ggml.tokens");
  if (tokens && tokens->count() > std::uint64_t(spec_.vocabulary))
    meta_.refuse(
        fmt::format("{} tokens and an embedding for {}", tokens->count(), spec_.vocabulary));
  spec_.tied_embeddings = file_.find_tensor("output.weight") == nullptr;
}

void SpecReader::read_experts() {
  const std::int64_t experts = meta_.integer_or(key("expert_count"), 0, 0, kMaxHeads);
  if (experts == 0) return;
  MixtureOfExperts moe;
  moe.experts = int(experts);
  moe.experts_used = int(meta_.integer(key("expert_used_count"), 1, experts));
  const bool own = meta_.has(key("expert_feed_forward_length"));
  moe.expert_ffn =
      meta_.integer(key(own ? "expert_feed_forward_length" : "feed_forward_length"), 1, kMaxWidth);
  // Experts beside a dense FFN: it counts as a shared one.
  const bool beside = has("pre_ffw_norm_2.weight");
  moe.shared_ffn = rows_of(beside ? "ffn_up.weight" : "ffn_up_shexp.weight");
  moe.shared_gate = has("ffn_gate_inp_shexp.weight");
  moe.dense_layers = int(meta_.integer_or(key("leading_dense_block_count"), 0, 0, spec_.layers));
  moe.every = int(meta_.integer_or(key("interleave_moe_layer_step"), 1, 1, 1000));
  moe.router_bias = has("ffn_gate_inp.bias") || has("exp_probs_b.bias") || has("exp_probs_b") ||
                    has("ffn_down_exps.scale");
  moe.expert_bias = has("ffn_up_exps.bias") || has("ffn_down_exps.bias");
  spec_.moe = moe;
}

// Layers of one block alone: those with KV heads attend, those with an FFN's width have one, and
// all others are recurrent.
void SpecReader::read_pattern() {
  if (!is(&Architecture::single_blocks) || meta_.error()) return;
  const std::string name = key("feed_forward_length");
  const Value* const value = file_.metadata().find(name);
  const auto widths = value ? value->integers() : std::nullopt;
  if (!widths || widths->size() != std::size_t(spec_.layers) || !spec_.recurrent)
    return meta_.refuse(fmt::format("\"{}\" and \"{}\" are not numbers of each of {} layers", name,
                                    key("attention.head_count_kv"), spec_.layers));
  const std::vector<int> attending = std::exchange(spec_.recurrent->attention_layers, {});
  for (int layer = 0; layer < spec_.layers; ++layer) {
    const std::int64_t width = (*widths)[std::size_t(layer)];
    const bool attends = std::ranges::find(attending, layer) != attending.end();
    const bool routes = file_.find_tensor(fmt::format("blk.{}.ffn_gate_inp.weight", layer));
    if (width > 0 && !routes && spec_.ffn == 0) spec_.ffn = width;
    if (width < 0 || width > kMaxWidth || (attends && width > 0) ||
        (width > 0 && !routes && width != spec_.ffn))
      return meta_.refuse(
          fmt::format("\"{}\" is {} of layer {}, which is not understood", name, width, layer),
          std::string(kUseCatalogue));
    if (width > 0 && routes && !spec_.moe)
      return meta_.refuse(
          fmt::format("layer {} chooses experts, and \"{}\" says that there are none", layer,
                      key("expert_count")));
    spec_.pattern += attends ? '*' : width == 0 ? 'M' : routes ? 'E' : '-';
  }
}

void SpecReader::read_ffn() {
  const bool dense = !spec_.moe || spec_.moe->dense_layers > 0 || spec_.moe->every > 1;
  const std::int64_t up = rows_of("ffn_up.weight");
  if (dense && spec_.pattern.empty())
    spec_.ffn = meta_.integer(key("feed_forward_length"), 1, kMaxWidth);
  if (has("ffn_gate.weight") || has("ffn_gate_exps.weight") || has("ffn_gate_up_exps.weight"))
    return;
  spec_.fused_gate_up = dense && up == 2 * spec_.ffn;
  spec_.gated_ffn = spec_.fused_gate_up;
}

// The period n of layers without a window; 0 if all layers have one.
std::optional<int> SpecReader::period_of(const Value& windowed) {
  std::vector<bool> flags;
  windowed.each([&](const Value& v) {
    const auto flag = v.flag();
    flags.push_back(flag ? *flag : v.integer().value_or(0) != 0);
  });
  if (flags.size() < std::size_t(spec_.layers)) return std::nullopt;
  flags.resize(std::size_t(spec_.layers));
  const auto first_full = std::ranges::find(flags, false);
  const int n = first_full == flags.end() ? 0 : int(first_full - flags.begin()) + 1;
  for (std::size_t i = 0; i < flags.size(); ++i)
    if (flags[i] != !(n > 0 && (int(i) + 1) % n == 0)) return std::nullopt;
  return n;
}

std::optional<int> SpecReader::full_every() {
  const std::string pattern = key("attention.sliding_window_pattern");
  const Value* value = file_.metadata().find(pattern);
  if (!value) return default_full_every(spec_.architecture);
  if (value->type() != ValueType::kArray) return int(meta_.integer_or(pattern, 0, 0, 1000));
  const auto n = period_of(*value);
  if (!n)
    meta_.refuse(
        fmt::format("\"{}\" has no period over all layers, which is not understood", pattern),
        std::string(kUseCatalogue));
  return n;
}

// What layers without a window have otherwise than the others.
void SpecReader::read_full_layers(SlidingWindow& window) {
  const auto sees_all = [&](int layer) {
    return window.full_every > 0 && (layer + 1) % window.full_every == 0;
  };
  window.full_head_dim = full_head_dim_;
  const int full = window.full_every - 1;
  if (full < 0 || full >= spec_.layers) return;
  if (!kv_heads_.empty() && kv_heads_[std::size_t(full)] != spec_.kv_heads)
    window.full_kv_heads = int(kv_heads_[std::size_t(full)]);
  const auto stem = [&](const char* end) { return fmt::format("blk.{}.{}.weight", full, end); };
  window.full_key_is_value =
      file_.find_tensor(stem("attn_k")) && !file_.find_tensor(stem("attn_v"));
  for (int i = 0; i < spec_.layers && !kv_heads_.empty(); ++i)
    if (kv_heads_[std::size_t(i)] != kv_heads_[std::size_t(sees_all(i) ? full : 0)])
      return meta_.refuse(fmt::format("\"{}\" does not follow the layers' windows, which is not "
                                      "understood",
                                      key("attention.head_count_kv")),
                          std::string(kUseCatalogue));
}

void SpecReader::read_window() {
  SlidingWindow window;
  const std::string name = key("attention.sliding_window");
  const auto of_no_key = default_window(spec_.architecture);
  window.tokens = of_no_key ? meta_.integer_or(name, *of_no_key, 0, kMaxTokens)
                            : meta_.integer(name, 1, kMaxTokens);
  const bool differ = full_head_dim_ > 0 ||
                      (!kv_heads_.empty() && std::ranges::count(kv_heads_, kv_heads_.front()) !=
                                                 std::int64_t(kv_heads_.size()));
  if (window.tokens == 0) {
    if (differ)
      meta_.refuse("layers have other heads and no window, which is not understood",
                   std::string(kUseCatalogue));
    return;
  }
  window.full_every = full_every().value_or(0);
  read_full_layers(window);
  // A window as long as the context bounds nothing; but where it makes layers differ, RoPE may.
  if (window.full_every == 0 && window.tokens >= spec_.context) return;
  if (window.full_every != 1) spec_.window = window;  // 1: every layer attends to all tokens
}

// Reads MLA. Since 2025-04 the key and value lengths are those of the compressed cache, and the
// dimensions of a head have keys of their own.
void SpecReader::read_latent_attention() {
  if (!meta_.has(key("attention.kv_lora_rank"))) return;
  LatentAttention mla;
  mla.q_lora_rank = meta_.integer_or(key("attention.q_lora_rank"), 0, 0, kMaxWidth);
  mla.kv_lora_rank = meta_.integer(key("attention.kv_lora_rank"), 1, kMaxWidth);
  mla.qk_rope_dim = meta_.integer(key("rope.dimension_count"), 1, kMaxHeads);
  const bool own = meta_.has(key("attention.key_length_mla"));
  const std::int64_t k =
      meta_.integer(key(own ? "attention.key_length_mla" : "attention.key_length"), 1, kMaxHeads);
  mla.v_dim = meta_.integer(key(own ? "attention.value_length_mla" : "attention.value_length"), 1,
                            kMaxHeads);
  mla.qk_nope_dim = k - mla.qk_rope_dim;
  if (mla.qk_nope_dim < 1)
    meta_.refuse(fmt::format("keys of {} of which {} turn", k, mla.qk_rope_dim));
  spec_.mla = mla;
  spec_.head_dim = k;
  // Every head has its own keys and values, expanded from the compressed ones in the cache.
  spec_.kv_heads = spec_.heads;
}

// The layers that choose tokens have tensors for it, and keep a key. Architectures for which
// llama.cpp has such a cache.
void SpecReader::read_indexer() {
  constexpr std::string_view kKnown[] = {"deepseek32", "glm-dsa", "minimax-m3"};
  if (std::ranges::find(kKnown, spec_.architecture) == std::end(kKnown)) return;
  SparseIndexer indexer;
  indexer.key_dim = meta_.integer_or(key("attention.indexer.key_length"), 0, 0, kMaxWidth);
  if (indexer.key_dim == 0) return;
  std::set<int> layers;
  for (const TensorInfo& t : file_.tensors())
    if (const TensorName name = parse_tensor_name(t.name); name.stem.starts_with("indexer."))
      layers.insert(name.layer);
  indexer.layers.assign(layers.begin(), layers.end());
  spec_.indexer = std::move(indexer);
}

int SpecReader::count_norms() const {
  int count = 0;
  for (const char* name : {"attn_norm", "attn_norm_2", "ffn_norm", "post_attention_norm",
                           "post_ffw_norm", "attn_post_norm", "ffn_post_norm", "layer_output_norm",
                           "post_ffw_norm_1", "pre_ffw_norm_2", "post_ffw_norm_2"})
    count += has(std::string(name) + ".weight");
  return count + has("ffn_norm") + has("ffn_gate_inp.scale");
}

void SpecReader::read_traits() {
  const std::int64_t q = spec_.heads * spec_.head_dim;
  spec_.fused_qkv = has("attn_qkv.weight");
  spec_.qkv_bias = has("attn_q.bias") || has("attn_qkv.bias");
  spec_.output_bias = has("attn_output.bias");
  if (const TensorInfo* norm = trait("attn_q_norm.weight")) {
    spec_.qk_norm = true;
    spec_.qk_norm_wide = spec_.heads > 1 && norm->elements() == std::uint64_t(q);
  }
  spec_.ffn_bias = has("ffn_up.bias") || has("ffn_down.bias");
  spec_.norm_bias = has("attn_norm.bias") || has("output_norm.bias");
  spec_.norms_per_layer = count_norms();
  spec_.rope_freqs = has("rope_freqs.weight");
  if (const TensorInfo* factors = trait("rope_factors_long.weight"))
    spec_.rope_factors = std::min<std::int64_t>(std::int64_t(factors->shape[0]), kMaxWidth);
  spec_.attention_gate = !spec_.mla && rows_of("attn_q.weight") == 2 * q;
  spec_.attention_sinks = has("attn_sinks.weight");
  spec_.layer_embedding =
      meta_.integer_or(key("embedding_length_per_layer_input"), 0, 0, kMaxWidth);
  spec_.layer_scale = has("layer_output_scale.weight");
  spec_.nextn_embeddings = has("nextn.embed_tokens.weight");
}

// Which layers are recurrent, and how wide their mixers are.
void SpecReader::read_recurrent_layers() {
  if (mixer() == Mixer::kNone || meta_.error()) return;
  if (is(&Architecture::mixes_beside)) spec_.recurrent.emplace().parallel = true;
  if (mixer() != Mixer::kDeltaNet) {
    if (spec_.recurrent) read_mixers();
    return;
  }
  constexpr int kEvery = 4;  // of files without the key, as in llama.cpp
  spec_.recurrent.emplace();
  spec_.recurrent->full_attention_every =
      int(meta_.integer_or(key("full_attention_interval"), kEvery, 1, 1000));
  spec_.fused_qkv = false;  // the matrix of that name is a mixer's
  read_mixers();
}

void SpecReader::read_mixers() {
  MixerWidths w;
  if (mixer() == Mixer::kShortConvolution) {
    w.conv_kernel = meta_.integer(key("shortconv.l_cache"), 2, 64);
  } else {
    w.conv_kernel = meta_.integer(key("ssm.conv_kernel"), 2, 64);
    w.inner_size = meta_.integer(key("ssm.inner_size"), 1, kMaxWidth);
    w.state_size = meta_.integer(key("ssm.state_size"), 1, kMaxHeads);
    w.time_step_rank = meta_.integer(key("ssm.time_step_rank"), 1, kMaxHeads);
    w.group_count = meta_.integer(key("ssm.group_count"), 1, kMaxHeads);
  }
  if (meta_.error()) return;
  const RecurrentLayers counts = recurrent_layers(spec_, w);
  spec_.recurrent->state_bytes = counts.state_bytes;
  spec_.recurrent->layer_parameters = counts.layer_parameters;
  spec_.recurrent->layer_f32_parameters = counts.layer_f32_parameters;
  if (mixer_widths(spec_) != w)
    meta_.refuse("the recurrent layers have widths that are not understood",
                 std::string(kUseCatalogue));
}

}  // namespace

Result<ModelSpec> read_spec(const GgufFile& file) { return SpecReader(file).read(); }

}  // namespace rigcast::engine
