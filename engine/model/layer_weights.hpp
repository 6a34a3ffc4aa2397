#pragma once
// A layer's weights, listed once: binding, counting, copying and uploading iterate over this list.

#include <string_view>

#include "core/base/error.hpp"
#include "core/model/quant_mix.hpp"

namespace rigcast::engine {

/// In the order in which they are bound and laid out in memory.
enum class LayerWeight {
  kAttentionNorm,
  kAttentionNormBias,
  kQ,
  kK,
  kV,
  kOutput,
  kQBias,
  kKBias,
  kVBias,
  kOutputBias,
  kAttentionPostNorm,
  kQNorm,
  kKNorm,
  kQA,
  kQANorm,
  kQB,
  kKvA,
  kKvANorm,
  kKB,
  kVB,
  kSinks,
  kMixerIn,
  kMixerGate,
  kMixerAlpha,
  kMixerBeta,
  kMixerTaps,
  kMixerTapsBias,
  kMixerTimeBias,
  kMixerDecay,
  kMixerSkip,
  kMixerNorm,
  kMixerOut,
  kFfnNorm,
  kFfnNormBias,
  kFfnPostNorm,
  kGate,
  kUp,
  kDown,
  kUpBias,
  kDownBias,
  kInputGate,
  kInputProjection,
  kInputNorm,
  kLayerScale,
  kRouter,
  kSelectionBias,
  kRouterNorm,
  kExpertNorm,
  kExpertPostNorm,
  kExpertScale,
  kSharedRouter,
  kSharedPostNorm,
  kSharedGate,
  kSharedUp,
  kSharedDown,
  kRouterBias,
  kExpertGate,
  kExpertUp,
  kExpertDown,
  kExpertGateBias,
  kExpertUpBias,
  kExpertDownBias,
};

/// The role by which quant mixes and placements classify a tensor.
TensorRole role_of(LayerWeight weight);
/// The weight's usual name in a GGUF file, after "blk.N.": "attn_q.weight".
std::string_view name_of(LayerWeight weight);

/// visit(weight, layers.member...) for every weight of Layer or cuda::DeviceLayer: of one layer, or
/// of several side by side. Weights that a layer does not have are visited as well; they are empty.
template <class Visit, class... Layers>
void for_each_weight(const Visit& visit, Layers&... layers) {
  using enum LayerWeight;
  visit(kAttentionNorm, layers.attention_norm...);
  visit(kAttentionNormBias, layers.attention_norm_bias...);
  visit(kQ, layers.q...);
  visit(kK, layers.k...);
  visit(kV, layers.v...);
  visit(kOutput, layers.output...);
  visit(kQBias, layers.q_bias...);
  visit(kKBias, layers.k_bias...);
  visit(kVBias, layers.v_bias...);
  visit(kOutputBias, layers.output_bias...);
  visit(kAttentionPostNorm, layers.attention_post_norm...);
  visit(kQNorm, layers.q_norm...);
  visit(kKNorm, layers.k_norm...);
  visit(kQA, layers.q_a...);
  visit(kQANorm, layers.q_a_norm...);
  visit(kQB, layers.q_b...);
  visit(kKvA, layers.kv_a...);
  visit(kKvANorm, layers.kv_a_norm...);
  visit(kKB, layers.k_b...);
  visit(kVB, layers.v_b...);
  visit(kSinks, layers.sinks...);
  visit(kMixerIn, layers.mixer_in...);
  visit(kMixerGate, layers.mixer_gate...);
  visit(kMixerAlpha, layers.mixer_alpha...);
  visit(kMixerBeta, layers.mixer_beta...);
  visit(kMixerTaps, layers.mixer_taps...);
  visit(kMixerTapsBias, layers.mixer_taps_bias...);
  visit(kMixerTimeBias, layers.mixer_time_bias...);
  visit(kMixerDecay, layers.mixer_decay...);
  visit(kMixerSkip, layers.mixer_skip...);
  visit(kMixerNorm, layers.mixer_norm...);
  visit(kMixerOut, layers.mixer_out...);
  visit(kFfnNorm, layers.ffn_norm...);
  visit(kFfnNormBias, layers.ffn_norm_bias...);
  visit(kFfnPostNorm, layers.ffn_post_norm...);
  visit(kGate, layers.gate...);
  visit(kUp, layers.up...);
  visit(kDown, layers.down...);
  visit(kUpBias, layers.up_bias...);
  visit(kDownBias, layers.down_bias...);
  visit(kInputGate, layers.input_gate...);
  visit(kInputProjection, layers.input_projection...);
  visit(kInputNorm, layers.input_norm...);
  visit(kLayerScale, layers.layer_scale...);
  visit(kRouter, layers.router...);
  visit(kSelectionBias, layers.selection_bias...);
  visit(kRouterNorm, layers.router_norm...);
  visit(kExpertNorm, layers.expert_norm...);
  visit(kExpertPostNorm, layers.expert_post_norm...);
  visit(kExpertScale, layers.expert_scale...);
  visit(kSharedRouter, layers.shared_router...);
  visit(kSharedPostNorm, layers.shared_post_norm...);
  visit(kSharedGate, layers.shared_gate...);
  visit(kSharedUp, layers.shared_up...);
  visit(kSharedDown, layers.shared_down...);
  visit(kRouterBias, layers.router_bias...);
  visit(kExpertGate, layers.expert_gate...);
  visit(kExpertUp, layers.expert_up...);
  visit(kExpertDown, layers.expert_down...);
  visit(kExpertGateBias, layers.expert_gate_bias...);
  visit(kExpertUpBias, layers.expert_up_bias...);
  visit(kExpertDownBias, layers.expert_down_bias...);
}

/// A matrix has rows and columns; a stack has equal matrices, one per expert; any other weight is a
/// vector.
template <class Weight>
concept WeightMatrix = requires(const Weight& w) {
  w.columns;
};
template <class Weight>
concept WeightStack = requires(const Weight& w) {
  w.first.columns;
};

/// Visits only the matrices: attention, dense FFN, router, shared experts.
template <class Visit, class... Layers>
void for_each_matrix(const Visit& visit, Layers&... layers) {
  for_each_weight(
      [&](LayerWeight weight, auto& first, auto&... others) {
        if constexpr (WeightMatrix<decltype(first)>) visit(weight, first, others...);
      },
      layers...);
}

/// Visits only the routed experts' stacks.
template <class Visit, class... Layers>
void for_each_stack(const Visit& visit, Layers&... layers) {
  for_each_weight(
      [&](LayerWeight weight, auto& first, auto&... others) {
        if constexpr (WeightStack<decltype(first)>) visit(weight, first, others...);
      },
      layers...);
}

/// Visits only the vectors: norms, biases (those of experts one after the other) and sinks.
template <class Visit, class... Layers>
void for_each_vector(const Visit& visit, Layers&... layers) {
  for_each_weight(
      [&](LayerWeight weight, auto& first, auto&... others) {
        if constexpr (!WeightMatrix<decltype(first)> && !WeightStack<decltype(first)>)
          visit(weight, first, others...);
      },
      layers...);
}

/// The weight `weight` of a Layer or cuda::DeviceLayer, as a matrix, as the routed experts' stack,
/// or as a vector. The weight must be of that kind (asserted).
template <class AnyLayer>
const auto& matrix_of(const AnyLayer& layer, LayerWeight weight) {
  const decltype(AnyLayer::q)* found = nullptr;
  for_each_matrix([&](LayerWeight w, const auto& m) { found = w == weight ? &m : found; }, layer);
  RIGCAST_ASSERT(found);
  return *found;
}
template <class AnyLayer>
const auto& stack_of(const AnyLayer& layer, LayerWeight weight) {
  const decltype(AnyLayer::expert_gate)* found = nullptr;
  for_each_stack([&](LayerWeight w, const auto& s) { found = w == weight ? &s : found; }, layer);
  RIGCAST_ASSERT(found);
  return *found;
}
template <class AnyLayer>
const auto& vector_of(const AnyLayer& layer, LayerWeight weight) {
  const decltype(AnyLayer::attention_norm)* found = nullptr;
  for_each_vector([&](LayerWeight w, const auto& v) { found = w == weight ? &v : found; }, layer);
  RIGCAST_ASSERT(found);
  return *found;
}

}  // namespace rigcast::engine
