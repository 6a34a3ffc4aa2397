#include "engine/gguf/model/executed_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

#include "engine/gguf/clean_text.hpp"

namespace rigcast::engine {
namespace {

// Read by read_spec and read_hyperparameters: what of them is not executed is refused there, or by
// refuse_to_execute.
constexpr std::string_view kRead[] = {
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.key_length_swa",
    "attention.kv_lora_rank",
    "attention.layer_norm_rms_epsilon",
    "attention.shared_kv_layers",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attention.value_length",
    "block_count",
    "context_length",
    "embedding_length",
    "embedding_length_per_layer_input",
    "expert_count",
    "expert_feed_forward_length",
    "expert_gating_func",
    "expert_used_count",
    "expert_weights_norm",
    "expert_weights_scale",
    "feed_forward_length",
    "interleave_moe_layer_step",
    "leading_dense_block_count",
    "nextn_predict_layers",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.factor",
    "rope.scaling.type",
};

// These change no logit of the architectures that are executed.
constexpr std::string_view kHarmless[] = {
    "classifier.output_labels",           // names of classes
    "expert_shared_count",                // shared experts are told by their tensors
    "expert_shared_feed_forward_length",  // likewise
    "pooling_type",                       // of embeddings, behind the last layer
    "rope.scaling.finetuned",             // how it was trained
    "rope.scaling.original_context_length",
    "rope.scaling.yarn_beta_fast",  // YaRN's alone, which is refused by its type
    "rope.scaling.yarn_beta_slow",
    "rope.scaling.yarn_log_multiplier",
    "tensor_data_layout",  // where the weights came from; q and k are permuted all the same
    "vocab_size",          // the embedding says it
};

// Executed as if they had this value.
struct Neutral {
  std::string_view key;
  double value;
  std::string_view would;  // what another value would do
  double also = value;     // means the same
};
constexpr Neutral kNeutral[] = {
    {"attention.causal", 1, "let tokens see those behind them"},
    {"attention.clamp_kqv", 0, "bound queries, keys and values"},
    {"attention.max_alibi_bias", 0, "add a bias to scores of attention"},
    {"attn_logit_softcapping", 0, "bound scores of attention"},
    {"attention.temperature_length", 0, "scale scores of attention by position"},
    {"attention.temperature_scale", 0, "scale scores of attention by position"},
    {"embedding_scale", 1, "scale the embedding"},
    {"expert_group_count", 0, "choose experts by groups", 1},
    {"expert_group_used_count", 0, "choose experts by groups", 1},
    {"final_logit_softcapping", 0, "bound the logits"},
    {"logit_scale", 1, "scale the logits"},
    {"residual_scale", 1, "scale what layers add"},
    {"rope.scaling.alpha", 1, "turn heads with another base"},
    {"rope.scaling.attn_factor", 1, "scale queries and keys"},
    {"rope.scaling.yarn_attn_factor", 1, "scale queries and keys"},
    {"rope.scaling.yarn_ext_factor", 0, "mix YaRN's frequencies in"},
    {"use_parallel_residual", 0, "compute attention and FFN side by side"},
};

std::optional<double> number_of(const Value& value) {
  if (const auto flag = value.flag()) return double(*flag);
  return value.number();
}

Error refused(const MetadataEntry& entry, std::string_view would) {
  return bad_input(fmt::format("\"{}\" is {}, which is not executed: it would {}",
                               clean_text(entry.key), value_text(entry.value), would),
                   "forecasts of the file work: rigcast simulate");
}

// 1 / sqrt(head) is what every head is scaled by; 0 is what converters write for it.
bool is_usual_scale(double scale, const ModelSpec& spec) {
  const double usual = 1 / std::sqrt(double(spec.head_dim));
  constexpr double kF32Epsilon = 0x1p-23;  // the file's number is an F32
  return scale == 0 || std::abs(scale - usual) <= 2 * kF32Epsilon * usual;
}

std::optional<Error> refuse_key(const MetadataEntry& entry, std::string_view key,
                                const ModelSpec& spec) {
  if (std::ranges::find(kRead, key) != std::end(kRead)) return std::nullopt;
  if (std::ranges::find(kHarmless, key) != std::end(kHarmless)) return std::nullopt;
  const auto number = number_of(entry.value);
  if (key == "attention.scale")
    return number && is_usual_scale(*number, spec)
               ? std::nullopt
               : std::optional(refused(entry, "scale scores of attention"));
  const auto* neutral = std::ranges::find(kNeutral, key, &Neutral::key);
  if (neutral == std::end(kNeutral))
    return refused(entry, "change the model in a way that is not known here");
  if (number == neutral->value || number == neutral->also) return std::nullopt;
  return refused(entry, neutral->would);
}

}  // namespace

std::optional<Error> refuse_unexecuted_keys(const GgufFile& file, const ModelSpec& spec) {
  const std::string prefix = spec.architecture + ".";
  for (const MetadataEntry& entry : file.metadata().entries()) {
    if (!entry.key.starts_with(prefix)) continue;
    if (auto error = refuse_key(entry, entry.key.substr(prefix.size()), spec)) {
      error->where = SourceRef{file.name()};
      return error;
    }
  }
  return std::nullopt;
}

}  // namespace rigcast::engine
