#include "core/model/hugging_face_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "core/text/nearest_name.hpp"

namespace rigcast {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxFileBytes = 4u << 20;
constexpr std::int64_t kMaxWidth = 1 << 24;
constexpr std::int64_t kMaxTokens = 1ll << 32;
constexpr std::int64_t kMaxVocabulary = 1 << 28;
constexpr std::int64_t kMaxHeads = 65536;
constexpr std::int64_t kMaxStateBytes = 1ll << 40;

class ConfigReader;

enum class Bias : std::uint8_t { kNone, kQkv, kQkvIfSaid, kQkvAndOutputIfSaid };
enum class Window : std::uint8_t { kNone, kIfSaid, kInPeriods };

// What a class of transformers has that its config.json does not say, as llama.cpp's converter
// writes it (ggml-org/llama.cpp, convert_hf_to_gguf.py), and what to read besides.
struct Architecture {
  std::string_view class_name;
  std::string_view gguf;
  Bias bias = Bias::kNone;
  Window window = Window::kNone;
  int full_every = 0;  // of windows, where no key says
  int norms = 2;
  bool tied = false;  // where tie_word_embeddings is absent
  bool qk_norm = false;
  bool qk_norm_wide = false;
  bool fused_qkv = false;
  bool fused_gate_up = false;
  bool router_bias = false;
  bool shared_gate = false;
  bool nextn = false;  // files keep the blocks that only speculate
  void (*read_more)(const ConfigReader&, ModelSpec&) = nullptr;
};

// Keys of a text model, which multimodal ones nest. The first error sticks.
class ConfigReader {
 public:
  ConfigReader(const Json& root, std::string file) : root_(root), file_(std::move(file)) {
    const auto nested = root.find("text_config");
    if (nested != root.end() && nested->is_object()) text_ = &*nested;
  }

  const Json* find(std::string_view key) const {
    for (const Json* table : {text_, &root_}) {
      if (!table) continue;
      const auto at = table->find(key);
      if (at != table->end() && !at->is_null()) return &*at;
    }
    return nullptr;
  }
  const Json* find_in(const Json* table, std::string_view key) const {
    if (!table || !table->is_object()) return nullptr;
    const auto at = table->find(key);
    return at != table->end() && !at->is_null() ? &*at : nullptr;
  }
  std::int64_t integer(std::string_view key, std::int64_t lo, std::int64_t hi) const {
    const Json* value = find(key);
    if (value) return checked(*value, key, lo, hi);
    refuse(fmt::format("\"{}\" is missing", key));
    return lo;
  }
  std::int64_t integer_or(std::string_view key, std::int64_t fallback, std::int64_t lo,
                          std::int64_t hi) const {
    const Json* value = find(key);
    return value ? checked(*value, key, lo, hi) : fallback;
  }
  bool flag(std::string_view key, bool fallback) const {
    const Json* value = find(key);
    if (!value) return fallback;
    if (!value->is_boolean()) refuse(fmt::format("\"{}\" is neither true nor false", key));
    return value->is_boolean() ? value->get<bool>() : fallback;
  }
  std::string text(const Json* value) const {
    return value && value->is_string() ? value->get<std::string>() : "";
  }
  void refuse(std::string message, std::string hint = {}) const {
    if (!error_) error_ = bad_input(std::move(message), std::move(hint), SourceRef{file_});
  }
  const std::optional<Error>& error() const { return error_; }
  const Json& root() const { return root_; }

 private:
  std::int64_t checked(const Json& value, std::string_view key, std::int64_t lo,
                       std::int64_t hi) const {
    const bool is_whole =
        value.is_number_integer() &&
        (!value.is_number_unsigned() || value.get<std::uint64_t>() <= std::uint64_t(hi));
    if (is_whole && value.get<std::int64_t>() >= lo && value.get<std::int64_t>() <= hi)
      return value.get<std::int64_t>();
    refuse(fmt::format("\"{}\": expected a whole number from {} to {}", key, lo, hi));
    return lo;
  }

  const Json& root_;
  const Json* text_ = nullptr;
  std::string file_;
  mutable std::optional<Error> error_;
};

// The gated delta rule: one state of key x value a head, and the last inputs of a convolution.
void read_delta_rule(const ConfigReader& c, ModelSpec& m) {
  const std::int64_t key_heads = c.integer("linear_num_key_heads", 1, kMaxHeads);
  const std::int64_t value_heads = c.integer("linear_num_value_heads", 1, kMaxHeads);
  const std::int64_t key_dim = c.integer("linear_key_head_dim", 1, 4096);
  const std::int64_t value_dim = c.integer("linear_value_head_dim", 1, 4096);
  const std::int64_t taps = c.integer("linear_conv_kernel_dim", 1, 64);
  const std::int64_t keys = key_heads * key_dim, values = value_heads * value_dim;
  const std::int64_t convolved = 2 * keys + values;
  RecurrentLayers r;
  r.full_attention_every = int(c.integer_or("full_attention_interval", 4, 1, 1000));
  r.state_bytes = 4 * ((taps - 1) * convolved + value_heads * key_dim * value_dim);
  // Convolution, the decay and step of each head, and the norm of a head's output.
  r.layer_f32_parameters = taps * convolved + 2 * value_heads + value_dim;
  const std::int64_t rows = convolved + values + 2 * value_heads;
  r.layer_parameters = m.hidden * (rows + values) + r.layer_f32_parameters;
  if (r.state_bytes > kMaxStateBytes || r.layer_parameters > kMaxStateBytes)
    c.refuse("the recurrent layers are too large to be plausible");
  m.recurrent = r;
  m.attention_gate = true;
}

void read_gpt_oss(const ConfigReader&, ModelSpec& m) {
  m.attention_sinks = true;
  m.moe->expert_bias = true;
}

void read_llama4(const ConfigReader& c, ModelSpec& m) {
  const std::int64_t chunk = c.integer_or("attention_chunk_size", 8192, 1, kMaxTokens);
  m.window = SlidingWindow{.tokens = chunk, .full_every = 4};
  m.moe->every = int(c.integer_or("interleave_moe_layer_step", 1, 1, 1000));
  m.moe->shared_ffn = m.moe->expert_ffn;
  m.ffn = m.moe->every > 1 ? c.integer("intermediate_size_mlp", 1, kMaxWidth) : 0;
}

// Files of Gemma 3 leave out rows of the embedding that stand for no token.
void read_gemma3(const ConfigReader&, ModelSpec& m) {
  m.vocabulary = std::min<std::int64_t>(m.vocabulary, 262144);
}

void read_gemma4(const ConfigReader& c, ModelSpec& m) {
  m.rope_freqs = m.layer_scale = true;
  m.shared_kv_layers = int(c.integer_or("num_kv_shared_layers", 0, 0, m.layers - 1));
  m.layer_embedding = c.integer_or("hidden_size_per_layer_input", 0, 0, kMaxWidth);
  if (m.window) {
    m.window->full_head_dim = c.integer_or("global_head_dim", 0, 0, 65536);
    m.window->full_kv_heads = int(c.integer_or("num_global_key_value_heads", 0, 0, kMaxHeads));
    m.window->full_key_is_value = c.flag("attention_k_eq_v", false);
  }
  if (c.flag("use_double_wide_mlp", false))
    c.refuse("FFNs of two widths (\"use_double_wide_mlp\") cannot be expressed");
  if (!m.moe) return;
  m.norms_per_layer = 8;
  m.moe->shared_ffn = c.integer("intermediate_size", 1, kMaxWidth);
}

void read_glm4_moe(const ConfigReader& c, ModelSpec& m) {
  m.qk_norm = c.flag("use_qk_norm", false);
}

void read_cohere(const ConfigReader& c, ModelSpec& m) {
  m.context = c.integer_or("model_max_length", m.context, 1, kMaxTokens);
  m.qk_norm = m.qk_norm_wide = c.flag("use_qk_norm", false);
}

void read_falcon(const ConfigReader& c, ModelSpec& m) {
  const bool grouped = c.flag("new_decoder_architecture", false);
  const bool one_kv = c.flag("multi_query", true);
  m.kv_heads = grouped ? int(c.integer("num_kv_heads", 1, m.heads)) : one_kv ? 1 : m.heads;
  m.ffn = c.integer_or("ffn_hidden_size", 4 * m.hidden, 1, kMaxWidth);
  m.gated_ffn = false;
  m.norm_bias = true;
  m.norms_per_layer = grouped && c.integer_or("num_ln_in_parallel_attn", 2, 1, 2) == 2 ? 2 : 1;
  if (c.flag("bias", false) || !c.flag("parallel_attn", true))
    c.refuse("Falcon with biases, or with attention before the FFN, cannot be expressed");
}

constexpr Architecture kArchitectures[] = {
    {.class_name = "CohereForCausalLM",
     .gguf = "command-r",
     .norms = 1,
     .tied = true,
     .read_more = read_cohere},
    {.class_name = "Cohere2ForCausalLM",
     .gguf = "cohere2",
     .window = Window::kInPeriods,
     .full_every = 4,
     .norms = 1,
     .tied = true},
    {.class_name = "DeepseekV2ForCausalLM", .gguf = "deepseek2"},
    {.class_name = "DeepseekV3ForCausalLM", .gguf = "deepseek2", .router_bias = true},
    {.class_name = "FalconForCausalLM",
     .gguf = "falcon",
     .norms = 1,
     .fused_qkv = true,
     .read_more = read_falcon},
    {.class_name = "Gemma2ForCausalLM",
     .gguf = "gemma2",
     .window = Window::kInPeriods,
     .full_every = 2,
     .norms = 4,
     .tied = true},
    {.class_name = "Gemma3ForCausalLM",
     .gguf = "gemma3",
     .window = Window::kInPeriods,
     .full_every = 6,
     .norms = 4,
     .tied = true,
     .qk_norm = true,
     .read_more = read_gemma3},
    {.class_name = "Gemma3ForConditionalGeneration",
     .gguf = "gemma3",
     .window = Window::kInPeriods,
     .full_every = 6,
     .norms = 4,
     .tied = true,
     .qk_norm = true,
     .read_more = read_gemma3},
    {.class_name = "Gemma4ForCausalLM",
     .gguf = "gemma4",
     .window = Window::kInPeriods,
     .full_every = 6,
     .norms = 4,
     .tied = true,
     .qk_norm = true,
     .router_bias = true,
     .read_more = read_gemma4},
    {.class_name = "Gemma4ForConditionalGeneration",
     .gguf = "gemma4",
     .window = Window::kInPeriods,
     .full_every = 6,
     .norms = 4,
     .tied = true,
     .qk_norm = true,
     .router_bias = true,
     .read_more = read_gemma4},
    {.class_name = "Glm4ForCausalLM",
     .gguf = "glm4",
     .bias = Bias::kQkvIfSaid,
     .norms = 4,
     .fused_gate_up = true},
    {.class_name = "Glm4MoeForCausalLM",
     .gguf = "glm4moe",
     .bias = Bias::kQkvIfSaid,
     .router_bias = true,
     .nextn = true,
     .read_more = read_glm4_moe},
    {.class_name = "Glm4MoeLiteForCausalLM", .gguf = "deepseek2", .router_bias = true},
    {.class_name = "GptOssForCausalLM",
     .gguf = "gpt-oss",
     .bias = Bias::kQkvAndOutputIfSaid,
     .window = Window::kInPeriods,
     .full_every = 2,
     .router_bias = true,
     .read_more = read_gpt_oss},
    {.class_name = "GraniteForCausalLM", .gguf = "granite", .bias = Bias::kQkvAndOutputIfSaid},
    {.class_name = "Llama4ForCausalLM", .gguf = "llama4", .read_more = read_llama4},
    {.class_name = "Llama4ForConditionalGeneration", .gguf = "llama4", .read_more = read_llama4},
    {.class_name = "LlamaForCausalLM", .gguf = "llama", .bias = Bias::kQkvAndOutputIfSaid},
    {.class_name = "MiniMaxM2ForCausalLM",
     .gguf = "minimax-m2",
     .qk_norm = true,
     .qk_norm_wide = true,
     .router_bias = true},
    {.class_name = "Mistral3ForConditionalGeneration", .gguf = "llama", .window = Window::kIfSaid},
    {.class_name = "MistralForCausalLM", .gguf = "llama", .window = Window::kIfSaid},
    {.class_name = "MixtralForCausalLM", .gguf = "llama", .window = Window::kIfSaid},
    {.class_name = "Olmo2ForCausalLM", .gguf = "olmo2", .qk_norm = true, .qk_norm_wide = true},
    {.class_name = "Phi3ForCausalLM",
     .gguf = "phi3",
     .window = Window::kIfSaid,
     .fused_qkv = true,
     .fused_gate_up = true},
    {.class_name = "Qwen2ForCausalLM", .gguf = "qwen2", .bias = Bias::kQkv},
    {.class_name = "Qwen2MoeForCausalLM",
     .gguf = "qwen2moe",
     .bias = Bias::kQkv,
     .shared_gate = true},
    {.class_name = "Qwen3ForCausalLM", .gguf = "qwen3", .qk_norm = true},
    {.class_name = "Qwen3MoeForCausalLM", .gguf = "qwen3moe", .qk_norm = true},
    {.class_name = "Qwen3NextForCausalLM",
     .gguf = "qwen3next",
     .qk_norm = true,
     .shared_gate = true,
     .read_more = read_delta_rule},
    {.class_name = "Qwen3_5ForConditionalGeneration",
     .gguf = "qwen35",
     .qk_norm = true,
     .read_more = read_delta_rule},
    {.class_name = "Qwen3_5MoeForConditionalGeneration",
     .gguf = "qwen35moe",
     .qk_norm = true,
     .shared_gate = true,
     .read_more = read_delta_rule},
};

const Architecture* find_architecture(const ConfigReader& c) {
  const Json* names = c.find_in(&c.root(), "architectures");
  const std::string name =
      names && names->is_array() && !names->empty() ? c.text(&names->front()) : "";
  for (const Architecture& a : kArchitectures)
    if (a.class_name == name) return &a;
  std::vector<std::string_view> known;
  for (const Architecture& a : kArchitectures) known.push_back(a.class_name);
  c.refuse(name.empty() ? "there is no class in \"architectures\": no config.json of a model"
                        : fmt::format("the architecture \"{}\" is not known", name.substr(0, 80)),
           fmt::format("known: {}", fmt::join(known, ", ")));
  return nullptr;
}

void read_heads(const ConfigReader& c, ModelSpec& m) {
  // Keys of Gemma 3 with the defaults of its class are absent.
  const bool is_gemma3 = m.architecture == "gemma3";
  m.heads = int(is_gemma3 ? c.integer_or("num_attention_heads", 8, 1, kMaxHeads)
                          : c.integer("num_attention_heads", 1, kMaxHeads));
  m.kv_heads = int(c.integer_or("num_key_value_heads", is_gemma3 ? 4 : m.heads, 1, kMaxHeads));
  const std::int64_t usual = is_gemma3 ? 256 : m.hidden / m.heads;
  const bool is_known = is_gemma3 || c.find("head_dim") || c.find("kv_lora_rank");
  if (!is_known && m.hidden % m.heads != 0)
    c.refuse(fmt::format("{} in {} heads: \"head_dim\" is missing", m.hidden, m.heads));
  m.head_dim = c.integer_or("head_dim", std::max<std::int64_t>(usual, 1), 1, 65536);
}

void read_latent_attention(const ConfigReader& c, ModelSpec& m) {
  if (!c.find("kv_lora_rank")) return;
  LatentAttention mla;
  mla.q_lora_rank = c.integer_or("q_lora_rank", 0, 0, kMaxWidth);
  mla.kv_lora_rank = c.integer("kv_lora_rank", 1, kMaxWidth);
  mla.qk_nope_dim = c.integer("qk_nope_head_dim", 1, 65536);
  mla.qk_rope_dim = c.integer("qk_rope_head_dim", 1, 65536);
  mla.v_dim = c.integer("v_head_dim", 1, 65536);
  m.mla = mla;
  m.kv_heads = m.heads;  // expanded from the compressed cache
  m.head_dim = mla.qk_nope_dim + mla.qk_rope_dim;
}

void read_experts(const ConfigReader& c, const Architecture& a, ModelSpec& m) {
  const char* count = nullptr;
  for (const char* key : {"num_local_experts", "num_experts", "n_routed_experts"})
    if (!count && c.integer_or(key, 0, 0, kMaxHeads) > 0) count = key;
  if (!count) return;
  MixtureOfExperts moe;
  moe.experts = int(c.integer(count, 1, kMaxHeads));
  const char* used = c.find("top_k_experts") ? "top_k_experts" : "num_experts_per_tok";
  moe.experts_used = int(c.integer(used, 1, moe.experts));
  const char* width =
      c.find("moe_intermediate_size") ? "moe_intermediate_size" : "intermediate_size";
  moe.expert_ffn = c.integer(width, 1, kMaxWidth);
  moe.shared_ffn =
      c.integer_or("shared_expert_intermediate_size",
                   c.integer_or("n_shared_experts", 0, 0, 1024) * moe.expert_ffn, 0, kMaxWidth);
  if (moe.shared_ffn > kMaxWidth) c.refuse("the shared experts are too wide to be plausible");
  moe.shared_gate = a.shared_gate;
  moe.dense_layers = int(c.integer_or("first_k_dense_replace", 0, 0, m.layers));
  moe.every = int(c.integer_or("decoder_sparse_step", 1, 1, 1000));
  moe.router_bias = a.router_bias;
  m.moe = moe;
  if (moe.dense_layers == 0 && moe.every == 1) m.ffn = 0;
  if (const Json* dense = c.find("mlp_only_layers"); dense && dense->is_array() && !dense->empty())
    c.refuse("single dense layers (\"mlp_only_layers\") cannot be expressed");
}

// The period of layers that attend to all tokens, from a list of every layer's kind.
std::optional<int> period_of(const Json& kinds) {
  int first = 0;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const bool is_full = kinds[i] == "full_attention";
    const int layer = int(i) + 1;
    if (is_full && first == 0) first = layer;
    if (is_full != (first > 0 && layer % first == 0)) return std::nullopt;
  }
  return first;
}

void read_window(const ConfigReader& c, const Architecture& a, ModelSpec& m) {
  if (a.window == Window::kNone || !c.flag("use_sliding_window", true)) return;
  SlidingWindow window;
  window.tokens = c.integer_or("sliding_window", 0, 0, kMaxTokens);
  if (window.tokens == 0 && a.window == Window::kInPeriods)
    c.refuse("\"sliding_window\" is missing");
  if (window.tokens == 0 || window.tokens >= m.context) return;
  window.full_every = int(c.integer_or("sliding_window_pattern", a.full_every, 0, 1000));
  const Json* kinds = c.find("layer_types");
  if (kinds && kinds->is_array() && kinds->size() == std::size_t(m.layers)) {
    const auto period = period_of(*kinds);
    if (!period) c.refuse("\"layer_types\" has no period, which cannot be expressed");
    window.full_every = period.value_or(0);
  }
  if (window.full_every != 1) m.window = window;
}

// Factors by which positions are scaled, which files carry as vectors.
void read_rope(const ConfigReader& c, ModelSpec& m) {
  const Json* rope = c.find("rope_scaling");
  if (!rope) rope = c.find("rope_parameters");
  const Json* named = c.find_in(rope, "rope_type");
  const std::string type = c.text(named ? named : c.find_in(rope, "type"));
  m.rope_freqs = type == "llama3";
  const Json* factors = c.find_in(rope, "long_factor");
  if (factors && factors->is_array())
    m.rope_factors = std::min<std::int64_t>(std::int64_t(factors->size()), kMaxWidth);
}

void read_biases(const ConfigReader& c, const Architecture& a, ModelSpec& m) {
  const bool said = c.flag("attention_bias", false);
  m.qkv_bias = a.bias == Bias::kQkv || (a.bias != Bias::kNone && said);
  m.output_bias = a.bias == Bias::kQkvAndOutputIfSaid && said;
  m.ffn_bias = c.flag("mlp_bias", false);
  if (a.bias == Bias::kNone && said)
    c.refuse(fmt::format("{} with \"attention_bias\" cannot be expressed", a.class_name));
}

ModelSpec read_spec(const ConfigReader& c, const Architecture& a) {
  ModelSpec m;
  m.architecture = a.gguf;
  m.layers = int(c.integer("num_hidden_layers", 1, 10'000));
  m.hidden = c.integer("hidden_size", 1, kMaxWidth);
  m.vocabulary = m.architecture == "gemma3" ? c.integer_or("vocab_size", 262208, 1, kMaxVocabulary)
                                            : c.integer("vocab_size", 1, kMaxVocabulary);
  const std::int64_t usual_context = m.architecture == "falcon" ? 2048 : 131072;
  const bool may_lack_context = m.architecture == "falcon" || m.architecture == "gemma3";
  m.context = may_lack_context
                  ? c.integer_or("max_position_embeddings", usual_context, 1, kMaxTokens)
                  : c.integer("max_position_embeddings", 1, kMaxTokens);
  read_heads(c, m);
  m.ffn = c.integer_or("intermediate_size", 0, 0, kMaxWidth);
  m.tied_embeddings = c.flag("tie_word_embeddings", a.tied);
  m.qk_norm = a.qk_norm;
  m.qk_norm_wide = a.qk_norm_wide;
  m.fused_qkv = a.fused_qkv;
  m.fused_gate_up = a.fused_gate_up;
  m.norms_per_layer = a.norms;
  read_biases(c, a, m);
  read_latent_attention(c, m);
  read_experts(c, a, m);
  read_window(c, a, m);
  read_rope(c, m);
  if (a.nextn) m.nextn_layers = int(c.integer_or("num_nextn_predict_layers", 0, 0, 16));
  m.nextn_embeddings = m.nextn_layers > 0;
  const bool needs_experts = a.read_more == read_gpt_oss || a.read_more == read_llama4;
  if (needs_experts && !m.moe) c.refuse(fmt::format("{} without experts", a.class_name));
  if (a.read_more && !c.error()) a.read_more(c, m);
  if (m.heads % m.kv_heads != 0) c.refuse("query heads are no multiple of the KV heads");
  const bool dense = !m.moe || m.moe->dense_layers > 0 || m.moe->every > 1;
  if (dense && m.ffn == 0) c.refuse("\"intermediate_size\" is missing");
  return m;
}

// "Qwen3-8B" of ".../Qwen3-8B/config.json".
void name_by_folder(const std::filesystem::path& file, ModelSpec& m) {
  std::error_code ignored;
  std::filesystem::path folder = std::filesystem::absolute(file, ignored).parent_path();
  // The hub's cache: "models--Qwen--Qwen3-8B/snapshots/REVISION".
  const bool is_cached = folder.parent_path().filename() == "snapshots";
  if (is_cached) folder = folder.parent_path().parent_path();
  m.name = file.stem() == "config" ? folder.filename().string() : file.stem().string();
  if (is_cached) m.name = m.name.substr(std::min(m.name.rfind("--") + 2, m.name.size()));
  m.id = as_id(m.name);
  if (m.id.empty()) m.id = m.name = "model";
  m.source = file.filename().string();
}

}  // namespace

Result<ModelSpec> parse_hugging_face_config(std::string_view text, const std::string& file) {
  const Json root = Json::parse(text, nullptr, false);
  if (!root.is_object())
    return bad_input("not a JSON object", "expected the config.json of a model", SourceRef{file});
  const ConfigReader reader(root, file);
  const Architecture* architecture = find_architecture(reader);
  if (!architecture) return *reader.error();
  ModelSpec spec = read_spec(reader, *architecture);
  if (reader.error()) return *reader.error();
  name_by_folder(file, spec);
  return spec;
}

Result<ModelSpec> read_hugging_face_config(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text;
  for (char piece[16384]; in && text.size() <= kMaxFileBytes;) {
    in.read(piece, sizeof piece);
    text.append(piece, std::size_t(in.gcount()));
  }
  if (text.empty() || in.bad())
    return bad_input("cannot read " + file.string(), "check the path and its permissions");
  if (text.size() > kMaxFileBytes)
    return bad_input(file.string() + " is larger than 4 MiB: no config.json of a model");
  return parse_hugging_face_config(text, file.string());
}

}  // namespace rigcast
