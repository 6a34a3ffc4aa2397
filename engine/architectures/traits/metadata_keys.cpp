#include "engine/architectures/traits/metadata_keys.hpp"

namespace rigcast::engine {

namespace {

// Keys that read_spec and read_hyperparameters read. Values that are not executed are refused
// there, or by check_executable.
constexpr std::string_view kRead[] = {
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.key_length_swa",
    "attention.kv_lora_rank",
    "attention.layer_norm_epsilon",
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
    "expert_group_count",
    "expert_group_used_count",
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
    "rope.scaling.attn_factor",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.type",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "rope.scaling.yarn_ext_factor",
    "rope.scaling.yarn_log_multiplier",
};

// Keys that change no logit of the executed architectures.
constexpr std::string_view kHarmless[] = {
    "classifier.output_labels",           // names of classes
    "expert_shared_count",                // shared experts are recognized by their tensors
    "expert_shared_feed_forward_length",  // likewise
    "pooling_type",                       // pooling of embeddings, after the last layer
    "rope.scaling.finetuned",             // says how the model was trained
    "tensor_data_layout",                 // origin of the weights; q and k are permuted in any case
    "vocab_size",                         // known from the embedding
};

// Keys with the only value that is supported.
constexpr NeutralKey kNeutral[] = {
    {"attention.causal", 1, "let tokens see those behind them"},
    {"attention.clamp_kqv", 0, "bound queries, keys and values"},
    {"attention.max_alibi_bias", 0, "add a bias to scores of attention"},
    {"attn_logit_softcapping", 0, "bound scores of attention"},
    {"attention.temperature_length", 0, "scale scores of attention by position"},
    {"attention.temperature_scale", 0, "scale scores of attention by position"},
    {"embedding_scale", 1, "scale the embedding"},
    {"final_logit_softcapping", 0, "bound the logits"},
    {"logit_scale", 1, "scale the logits"},
    {"residual_scale", 1, "scale what layers add"},
    {"rope.scaling.alpha", 1, "turn heads with another base"},
    {"rope.scaling.yarn_attn_factor", 1, "scale queries and keys"},
    {"use_parallel_residual", 0, "compute attention and FFN side by side"},
};

}  // namespace

constinit const MetadataKeys kDecoderKeys = {kRead, kHarmless, kNeutral};

}  // namespace rigcast::engine
