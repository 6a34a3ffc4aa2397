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
    {kBias, "attn_norm.bias"},
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
    {kProjection, "attn_q_a.weight"},
    {kNorm, "attn_q_a_norm.weight"},
    {kProjection, "attn_q_b.weight"},
    {kProjection, "attn_kv_a_mqa.weight"},
    {kNorm, "attn_kv_a_norm.weight"},
    {kProjection, "attn_k_b.weight"},
    {kProjection, "attn_v_b.weight"},
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
    {kBias, "ffn_norm.bias"},
    {kNorm, "post_ffw_norm.weight"},
    {kFfnGate, "ffn_gate.weight"},
    {kFfnUp, "ffn_up.weight"},
    {kFfnDown, "ffn_down.weight"},
    {kBias, "ffn_up.bias"},
    {kBias, "ffn_down.bias"},
    {kProjection, "inp_gate.weight"},
    {kProjection, "proj.weight"},
    {kNorm, "post_norm.weight"},
    {kNorm, "layer_output_scale.weight"},
    {kRouter, "ffn_gate_inp.weight"},
    {kBias, "exp_probs_b.bias"},
    {kNorm, "ffn_gate_inp.scale"},
    {kNorm, "pre_ffw_norm_2.weight"},
    {kNorm, "post_ffw_norm_2.weight"},
    {kNorm, "ffn_down_exps.scale"},
    {kRouter, "ffn_gate_inp_shexp.weight"},
    {kNorm, "post_ffw_norm_1.weight"},
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
