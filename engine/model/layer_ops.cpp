#include "engine/model/layer_ops.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace rigcast::engine {

namespace {

std::string_view name_of(Activation activation) {
  switch (activation) {
    case Activation::kHidden: return "hidden";
    case Activation::kNormed: return "normed";
    case Activation::kLatentQuery: return "latent_query";
    case Activation::kQuery: return "query";
    case Activation::kKey: return "key";
    case Activation::kValue: return "value";
    case Activation::kAttended: return "attended";
    case Activation::kBranch: return "branch";
    case Activation::kMixed: return "mixed";
    case Activation::kGates: return "gates";
    case Activation::kAlpha: return "alpha";
    case Activation::kBeta: return "beta";
    case Activation::kRouted: return "routed";
    case Activation::kDense: return "dense";
  }
  return {};
}

std::string_view name_of(OpKind kind) {
  switch (kind) {
    case OpKind::kRmsNorm: return "rms_norm";
    case OpKind::kHeadRmsNorm: return "head_rms_norm";
    case OpKind::kLayerNorm: return "layer_norm";
    case OpKind::kHeadLayerNorm: return "head_layer_norm";
    case OpKind::kLinear: return "linear";
    case OpKind::kAddBias: return "add_bias";
    case OpKind::kRope: return "rope";
    case OpKind::kLatentNorm: return "latent_norm";
    case OpKind::kRopeTail: return "rope_tail";
    case OpKind::kAbsorbKeys: return "absorb_keys";
    case OpKind::kExpandValues: return "expand_values";
    case OpKind::kScaleByPosition: return "scale_by_position";
    case OpKind::kAttention: return "attention";
    case OpKind::kGatedFfn: return "gated_ffn";
    case OpKind::kGeluFfn: return "gelu_ffn";
    case OpKind::kGeluMlp: return "gelu_mlp";
    case OpKind::kXieluMlp: return "xielu_mlp";
    case OpKind::kSquaredReluMlp: return "squared_relu_mlp";
    case OpKind::kLayerInput: return "layer_input";
    case OpKind::kExperts: return "experts";
    case OpKind::kClampedExperts: return "clamped_experts";
    case OpKind::kGeluExperts: return "gelu_experts";
    case OpKind::kSquaredReluExperts: return "squared_relu_experts";
    case OpKind::kSquaredReluShared: return "squared_relu_shared";
    case OpKind::kSharedExpert: return "shared_expert";
    case OpKind::kAdd: return "add";
    case OpKind::kAddResidual: return "add_residual";
    case OpKind::kScale: return "scale";
    case OpKind::kTakeQuery: return "take_query";
    case OpKind::kTakeGate: return "take_gate";
    case OpKind::kSigmoidGate: return "sigmoid_gate";
    case OpKind::kConvolve: return "convolve";
    case OpKind::kShortConvolution: return "short_convolution";
    case OpKind::kTakeGroupVectors: return "take_group_vectors";
    case OpKind::kTakeGroupGates: return "take_group_gates";
    case OpKind::kTakeGroupBetas: return "take_group_betas";
    case OpKind::kTakeGroupAlphas: return "take_group_alphas";
    case OpKind::kDeltaNet: return "delta_net";
    case OpKind::kGroupedDeltaNet: return "grouped_delta_net";
    case OpKind::kGatedRmsNorm: return "gated_rms_norm";
    case OpKind::kMamba: return "mamba";
    case OpKind::kGroupRmsNorm: return "group_rms_norm";
  }
  return {};
}

}  // namespace

bool uses(std::span<const LayerOp> ops, LayerWeight weight) {
  return std::ranges::any_of(ops, [&](const LayerOp& op) {
    return std::ranges::find(op.weights, weight) != op.weights.end();
  });
}

bool uses(std::span<const LayerOp> ops, OpKind kind) {
  return std::ranges::find(ops, kind, &LayerOp::kind) != ops.end();
}

std::string text(const LayerOp& op) {
  std::string out = fmt::format("{} = {}({}", name_of(op.out), name_of(op.kind), name_of(op.in));
  for (const LayerWeight weight : op.weights) out += fmt::format(", {}", name_of(weight));
  return out + ")";
}

}  // namespace rigcast::engine
