#include "engine/model/layer_weights.hpp"

#include <cstddef>
#include <iterator>

namespace rigcast::engine {

namespace {

struct Row {
  TensorRole role;
  std::string_view name;
};

using enum TensorRole;
constexpr Row kRows[] = {
    {kNorm, "attn_norm.weight"},
    {kAttentionQ, "attn_q.weight"},
    {kAttentionK, "attn_k.weight"},
    {kAttentionV, "attn_v.weight"},
    {kAttentionOutput, "attn_output.weight"},
    {kBias, "attn_q.bias"},
    {kBias, "attn_k.bias"},
    {kBias, "attn_v.bias"},
    {kBias, "attn_output.bias"},
    {kNorm, "post_attention_norm.weight"},
    {kNorm, "attn_q_norm.weight"},
    {kNorm, "attn_k_norm.weight"},
    {kBias, "attn_sinks.weight"},
    {kRecurrent, "ssm_in.weight"},
    {kRecurrent, "attn_gate.weight"},
    {kRecurrent, "ssm_alpha.weight"},
    {kRecurrent, "ssm_beta.weight"},
    {kRecurrent, "ssm_conv1d.weight"},
    {kBias, "ssm_conv1d.bias"},
    {kBias, "ssm_dt.bias"},
    {kRecurrent, "ssm_a"},
    {kNorm, "ssm_d"},
    {kNorm, "ssm_norm.weight"},
    {kAttentionOutput, "ssm_out.weight"},
    {kNorm, "ffn_norm.weight"},
    {kNorm, "post_ffw_norm.weight"},
    {kFfnGate, "ffn_gate.weight"},
    {kFfnUp, "ffn_up.weight"},
    {kFfnDown, "ffn_down.weight"},
    {kRouter, "ffn_gate_inp.weight"},
    {kBias, "exp_probs_b.bias"},
    {kRouter, "ffn_gate_inp_shexp.weight"},
    {kSharedGate, "ffn_gate_shexp.weight"},
    {kSharedUp, "ffn_up_shexp.weight"},
    {kSharedDown, "ffn_down_shexp.weight"},
    {kBias, "ffn_gate_inp.bias"},
    {kExpertGate, "ffn_gate_exps.weight"},
    {kExpertUp, "ffn_up_exps.weight"},
    {kExpertDown, "ffn_down_exps.weight"},
    {kBias, "ffn_gate_exps.bias"},
    {kBias, "ffn_up_exps.bias"},
    {kBias, "ffn_down_exps.bias"},
};
static_assert(std::size(kRows) == std::size_t(LayerWeight::kExpertDownBias) + 1);

}  // namespace

TensorRole role_of(LayerWeight weight) { return kRows[std::size_t(weight)].role; }
std::string_view name_of(LayerWeight weight) { return kRows[std::size_t(weight)].name; }

}  // namespace rigcast::engine
