#include "engine/model/fused_blocks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace rigcast::engine {

namespace {

using enum OpKind;
using enum Activation;
using enum LayerWeight;

constexpr bool kIfAny = true;

using Weights = std::vector<LayerWeight>;

BlockPattern attention_pattern() {
  return {FusedBlock::kAttention,
          {{{kRmsNorm, kHidden, kNormed, {kAttentionNorm}}},
           {{kLinear, kNormed, kQuery, {kQ}}},
           {{kLinear, kNormed, kKey, {kK}}},
           {{kLinear, kNormed, kValue, {kV}}},
           {{kAddBias, kQuery, kQuery, {kQBias}}, kIfAny},
           {{kAddBias, kKey, kKey, {kKBias}}, kIfAny},
           {{kAddBias, kValue, kValue, {kVBias}}, kIfAny},
           {{kHeadRmsNorm, kQuery, kQuery, {kQNorm}}, kIfAny},
           {{kHeadRmsNorm, kKey, kKey, {kKNorm}}, kIfAny},
           {{kRope, kQuery, kQuery}},
           {{kRope, kKey, kKey}},
           {{kAttention, kQuery, kAttended}},
           {{kLinear, kAttended, kBranch, {kOutput}}},
           {{kAddBias, kBranch, kBranch, {kOutputBias}}, kIfAny},
           {{kAddResidual, kBranch, kHidden}}}};
}

BlockPattern ffn_pattern() {
  return {FusedBlock::kFfn,
          {{{kRmsNorm, kHidden, kNormed, {kFfnNorm}}},
           {{kGatedFfn, kNormed, kBranch, {kGate, kUp, kDown}}},
           {{kAddResidual, kBranch, kHidden}}}};
}

BlockPattern experts_pattern() {
  return {FusedBlock::kExperts,
          {{{kRmsNorm, kHidden, kNormed, {kFfnNorm}}},
           {{kExperts, kNormed, kBranch, {kRouter, kExpertGate, kExpertUp, kExpertDown}}},
           {{kAddResidual, kBranch, kHidden}}}};
}

// What a block reads: a norm of the residual stream, or the stream itself.
Activation input_of(bool norms_before) { return norms_before ? kNormed : kHidden; }

void add_norm_before(BlockPattern& to, bool norms_before, LayerWeight weight) {
  if (!norms_before) return;
  to.ops.push_back({{kRmsNorm, kHidden, kNormed, {weight}}});
  const LayerWeight bias = weight == kFfnNorm ? kFfnNormBias : kAttentionNormBias;
  to.ops.push_back({{kAddBias, kNormed, kNormed, {bias}}, kIfAny});
}

void add_end(BlockPattern& to, LayerWeight norm) {
  to.ops.push_back({{kRmsNorm, kBranch, kBranch, {norm}}, kIfAny});
  to.ops.push_back({{kAddResidual, kBranch, kHidden}});
}

void add_last_end(BlockPattern& to, LayerWeight norm) {
  add_end(to, norm);
  to.ops.push_back({{kScale, kHidden, kHidden, {kLayerScale}}, kIfAny});
}

BlockPattern delta_net_pattern() {
  return {FusedBlock::kDeltaNet,
          {{{kRmsNorm, kHidden, kNormed, {kAttentionNorm}}},
           {{kLinear, kNormed, kMixed, {kMixerIn}}},
           {{kLinear, kNormed, kGates, {kMixerGate}}},
           {{kLinear, kNormed, kAlpha, {kMixerAlpha}}},
           {{kLinear, kNormed, kBeta, {kMixerBeta}}},
           {{kConvolve, kMixed, kMixed, {kMixerTaps}}},
           {{kDeltaNet, kMixed, kAttended, {kMixerDecay, kMixerTimeBias}}},
           {{kGatedRmsNorm, kGates, kAttended, {kMixerNorm}}},
           {{kLinear, kAttended, kBranch, {kMixerOut}}},
           {{kAddResidual, kBranch, kHidden}}}};
}

// Of heads whose neighbours share keys; `joined`: one matrix has gates beside what is convolved.
BlockPattern grouped_delta_net_pattern(bool joined) {
  BlockPattern out{FusedBlock::kDeltaNet, {{{kRmsNorm, kHidden, kNormed, {kAttentionNorm}}}}};
  const auto add = [&](LayerOp op) { out.ops.push_back({std::move(op)}); };
  add({kLinear, kNormed, kMixed, {kMixerIn}});
  if (joined) {
    add({kTakeGroupGates, kMixed, kGates});
    add({kTakeGroupVectors, kMixed, kMixed});
  } else {
    add({kLinear, kNormed, kGates, {kMixerGate}});
  }
  add({kLinear, kNormed, kBeta, {kMixerBeta}});
  add({kTakeGroupAlphas, kBeta, kAlpha});
  add({kTakeGroupBetas, kBeta, kBeta});
  add({kConvolve, kMixed, kMixed, {kMixerTaps}});
  add({kGroupedDeltaNet, kMixed, kAttended, {kMixerDecay, kMixerTimeBias}});
  add({kGatedRmsNorm, kGates, kAttended, {kMixerNorm}});
  add({kLinear, kAttended, kBranch, {kMixerOut}});
  add({kAddResidual, kBranch, kHidden});
  return out;
}

BlockPattern short_convolution_pattern() {
  return {FusedBlock::kShortConvolution,
          {{{kRmsNorm, kHidden, kNormed, {kAttentionNorm}}},
           {{kLinear, kNormed, kMixed, {kMixerIn}}},
           {{kShortConvolution, kMixed, kAttended, {kMixerTaps}}},
           {{kLinear, kAttended, kBranch, {kMixerOut}}},
           {{kAddResidual, kBranch, kHidden}}}};
}

// The gate's matrix is a part of the first one; whether there is a norm is the architecture's.
// `beside`: it reads the norm of attention.
BlockPattern mamba_pattern(bool beside) {
  BlockPattern out{FusedBlock::kMamba, {}};
  add_norm_before(out, !beside, kAttentionNorm);
  const auto add = [&](LayerOp op, bool optional = false) {
    out.ops.push_back({std::move(op), optional});
  };
  add({kLinear, kNormed, kMixed, {kMixerIn}});
  add({kMamba,
       kMixed,
       kAttended,
       {kMixerTaps, kMixerTapsBias, kMixerDecay, kMixerTimeBias, kMixerSkip}});
  add({kGroupRmsNorm, kAttended, kAttended, {kMixerNorm}}, kIfAny);
  add({kLinear, kAttended, kBranch, {kMixerOut}});
  add({kAddResidual, kBranch, kHidden});
  return out;
}

enum class Rotation { kNone, kBehindNorms, kBeforeNorms, kBeforePlainNorms };

struct AttentionTraits {
  bool norms_before;
  Rotation rotation;
  bool sinks, gated;
};

BlockPattern any_attention_pattern(const AttentionTraits& traits) {
  BlockPattern out{FusedBlock::kAttention, {}};
  const auto add = [&](LayerOp op, bool optional = false) {
    out.ops.push_back({std::move(op), optional});
  };
  const Activation in = input_of(traits.norms_before);
  add_norm_before(out, traits.norms_before, kAttentionNorm);
  add({kLinear, in, kQuery, {kQ}});
  add({kLinear, in, kKey, {kK}});
  add({kLinear, in, kValue, {kV}});
  if (traits.gated) add({kTakeGate, kQuery, kGates});
  if (traits.gated) add({kTakeQuery, kQuery, kQuery});
  add({kAddBias, kQuery, kQuery, {kQBias}}, kIfAny);
  add({kAddBias, kKey, kKey, {kKBias}}, kIfAny);
  add({kAddBias, kValue, kValue, {kVBias}}, kIfAny);
  const auto add_norms = [&] {
    for (const OpKind norm : {kHeadRmsNorm, kRmsNorm}) {
      add({norm, kQuery, kQuery, {kQNorm}}, kIfAny);
      add({norm, kKey, kKey, {kKNorm}}, kIfAny);
    }
  };
  if (traits.rotation != Rotation::kBeforeNorms) add_norms();
  if (traits.rotation != Rotation::kNone) add({kRope, kQuery, kQuery});
  if (traits.rotation != Rotation::kNone) add({kRope, kKey, kKey});
  if (traits.rotation == Rotation::kBeforeNorms) add_norms();
  if (traits.rotation == Rotation::kBeforePlainNorms) {
    add({kHeadRmsNorm, kQuery, kQuery});
    add({kHeadRmsNorm, kKey, kKey});
  }
  add({kScaleByPosition, kQuery, kQuery}, kIfAny);
  add({kAttention, kQuery, kAttended, traits.sinks ? Weights{kSinks} : Weights()});
  if (traits.gated) add({kSigmoidGate, kGates, kAttended});
  add({kLinear, kAttended, kBranch, {kOutput}});
  add({kAddBias, kBranch, kBranch, {kOutputBias}}, kIfAny);
  add_end(out, kAttentionPostNorm);
  return out;
}

BlockPattern latent_attention_pattern(bool compressed_queries) {
  BlockPattern out{FusedBlock::kAttention, {{{kRmsNorm, kHidden, kNormed, {kAttentionNorm}}}}};
  const auto add = [&](LayerOp op, bool optional = false) {
    out.ops.push_back({std::move(op), optional});
  };
  if (compressed_queries) {
    add({kLinear, kNormed, kLatentQuery, {kQA}});
    add({kRmsNorm, kLatentQuery, kLatentQuery, {kQANorm}});
    add({kLinear, kLatentQuery, kQuery, {kQB}});
  } else {
    add({kLinear, kNormed, kQuery, {kQ}});
  }
  add({kLinear, kNormed, kKey, {kKvA}});
  add({kLatentNorm, kKey, kKey, {kKvANorm}});
  add({kRopeTail, kQuery, kQuery});
  add({kRopeTail, kKey, kKey});
  add({kAbsorbKeys, kQuery, kQuery, {kKB}});
  add({kScaleByPosition, kQuery, kQuery}, kIfAny);
  add({kAttention, kQuery, kAttended});
  add({kExpandValues, kAttended, kAttended, {kVB}});
  add({kLinear, kAttended, kBranch, {kOutput}});
  add({kAddResidual, kBranch, kHidden});
  return out;
}

// Norms that subtract the mean, with or without a bias; an FFN beside attention has none of its
// own.
BlockPattern layer_norm_attention_pattern(bool biased, bool rotates) {
  BlockPattern out = any_attention_pattern(
      {true, rotates ? Rotation::kBehindNorms : Rotation::kNone, false, false});
  out.ops.front().op = {kLayerNorm, kHidden, kNormed, {kAttentionNorm}};
  if (biased) out.ops.front().op.weights.push_back(kAttentionNormBias);
  for (BlockPattern::Op& op : out.ops)
    if (op.op.kind == kHeadRmsNorm) op.op.kind = kHeadLayerNorm;
  return out;
}

// Values whose heads are normed: of a matrix, of the keys', or of another layer's cache, with keys.
enum class NormedValues { kOwn, kOfKeys, kOfOtherLayer };
BlockPattern normed_values_pattern(NormedValues values) {
  BlockPattern out = any_attention_pattern({true, Rotation::kBehindNorms, false, false});
  const auto of_keys = [](const BlockPattern::Op& op) {
    return op.op.out == kKey || op.op.out == kValue;
  };
  if (values == NormedValues::kOfOtherLayer) {
    std::erase_if(out.ops, of_keys);
    return out;
  }
  for (BlockPattern::Op& op : out.ops)
    if (op.op.kind == kLinear && op.op.out == kValue && values == NormedValues::kOfKeys)
      op.op.weights = {kK};
  const auto rope =
      std::ranges::find_if(out.ops, [](const BlockPattern::Op& op) { return op.op.kind == kRope; });
  out.ops.insert(rope, {{kHeadRmsNorm, kValue, kValue}});
  return out;
}

BlockPattern any_ffn_pattern(bool norms_before, OpKind gated) {
  BlockPattern out{FusedBlock::kFfn, {}};
  add_norm_before(out, norms_before, kFfnNorm);
  out.ops.push_back({{gated, input_of(norms_before), kBranch, {kGate, kUp, kDown}}});
  add_last_end(out, kFfnPostNorm);
  return out;
}

BlockPattern parallel_ffn_pattern(LayerOp ffn) {
  return {FusedBlock::kFfn, {{std::move(ffn)}, {{kAddResidual, kBranch, kHidden}}}};
}

BlockPattern mlp_pattern(LayerOp mlp) {
  BlockPattern out{FusedBlock::kFfn, {}};
  add_norm_before(out, true, kFfnNorm);
  out.ops.push_back({std::move(mlp)});
  add_end(out, kFfnPostNorm);
  return out;
}

BlockPattern layer_input_pattern() {
  BlockPattern out{FusedBlock::kLayerInput, {}};
  out.ops.push_back({{kLayerInput, kHidden, kBranch, {kInputGate, kInputProjection}}});
  add_last_end(out, kInputNorm);
  return out;
}

// What a mixture may have beside its router and stacks.
enum class ExpertBiases { kNone, kAll, kOfSelection };

BlockPattern any_experts_pattern(bool norms_before, OpKind kind, ExpertBiases biases) {
  BlockPattern out{FusedBlock::kExperts, {}};
  add_norm_before(out, norms_before, kFfnNorm);
  Weights weights = {kRouter, kExpertGate, kExpertUp, kExpertDown};
  if (biases == ExpertBiases::kAll)
    weights.insert(weights.end(), {kRouterBias, kExpertGateBias, kExpertUpBias, kExpertDownBias});
  if (biases == ExpertBiases::kOfSelection) weights.push_back(kSelectionBias);
  const Activation in = input_of(norms_before);
  out.ops.push_back({{kind, in, kBranch, std::move(weights)}});
  Weights shared = {kSharedGate, kSharedUp, kSharedDown};
  out.ops.push_back({{kSharedExpert, in, kBranch, shared}, kIfAny});
  shared.push_back(kSharedRouter);
  out.ops.push_back({{kSharedExpert, in, kBranch, std::move(shared)}, kIfAny});
  add_last_end(out, kFfnPostNorm);
  return out;
}

// Experts without a gate, and a shared one.
BlockPattern squared_relu_experts_pattern(bool biased) {
  BlockPattern out{FusedBlock::kExperts, {}};
  add_norm_before(out, true, kFfnNorm);
  Weights weights = {kRouter, kExpertUp, kExpertDown};
  if (biased) weights.push_back(kSelectionBias);
  out.ops.push_back({{kSquaredReluExperts, kNormed, kBranch, std::move(weights)}});
  out.ops.push_back({{kSquaredReluShared, kNormed, kBranch, {kSharedUp, kSharedDown}}, kIfAny});
  add_last_end(out, kFfnPostNorm);
  return out;
}

// Experts beside a dense FFN, with norms of their own.
BlockPattern experts_beside_pattern() {
  BlockPattern out{FusedBlock::kExperts, {}};
  const auto add = [&](LayerOp op) { out.ops.push_back({std::move(op)}); };
  add({kRmsNorm, kHidden, kNormed, {kFfnNorm}});
  add({kGeluFfn, kNormed, kDense, {kSharedGate, kSharedUp, kSharedDown}});
  add({kRmsNorm, kDense, kDense, {kSharedPostNorm}});
  add({kRmsNorm, kHidden, kRouted, {kRouterNorm}});
  add({kRmsNorm, kHidden, kNormed, {kExpertNorm}});
  add({kGeluExperts,
       kNormed,
       kBranch,
       {kRouter, kExpertGate, kExpertUp, kExpertDown, kExpertScale}});
  add({kRmsNorm, kBranch, kBranch, {kExpertPostNorm}});
  add({kAdd, kDense, kBranch});
  add_last_end(out, kFfnPostNorm);
  return out;
}

std::vector<BlockPattern> make_decoder_blocks() {
  std::vector<BlockPattern> all;
  for (const bool compressed : {false, true}) all.push_back(latent_attention_pattern(compressed));
  for (const bool before : {true, false}) {
    for (const Rotation rotation : {Rotation::kBehindNorms, Rotation::kNone, Rotation::kBeforeNorms,
                                    Rotation::kBeforePlainNorms})
      for (const bool sinks : {false, true})
        for (const bool gated : {false, true})
          all.push_back(any_attention_pattern({before, rotation, sinks, gated}));
    for (const OpKind gated : {kGatedFfn, kGeluFfn}) all.push_back(any_ffn_pattern(before, gated));
    for (const OpKind kind : {kExperts, kClampedExperts})
      for (const ExpertBiases biases :
           {ExpertBiases::kNone, ExpertBiases::kAll, ExpertBiases::kOfSelection})
        all.push_back(any_experts_pattern(before, kind, biases));
  }
  for (const bool biased : {false, true})
    for (const bool rotates : {true, false})
      all.push_back(layer_norm_attention_pattern(biased, rotates));
  for (const NormedValues values :
       {NormedValues::kOwn, NormedValues::kOfKeys, NormedValues::kOfOtherLayer})
    all.push_back(normed_values_pattern(values));
  const LayerOp gated = {kGatedFfn, kNormed, kBranch, {kGate, kUp, kDown}},
                gelu = {kGeluMlp, kNormed, kBranch, {kUp, kDown}},
                biased_gelu = {kGeluMlp, kNormed, kBranch, {kUp, kDown, kUpBias, kDownBias}};
  for (const LayerOp& ffn : {gated, gelu, biased_gelu}) all.push_back(parallel_ffn_pattern(ffn));
  for (const OpKind mlp : {kXieluMlp, kSquaredReluMlp})
    all.push_back(mlp_pattern({mlp, kNormed, kBranch, {kUp, kDown}}));
  for (const bool biased : {false, true}) all.push_back(squared_relu_experts_pattern(biased));
  all.push_back(experts_beside_pattern());
  all.push_back(layer_input_pattern());
  all.push_back(delta_net_pattern());
  for (const bool joined : {false, true}) all.push_back(grouped_delta_net_pattern(joined));
  all.push_back(short_convolution_pattern());
  for (const bool beside : {false, true}) all.push_back(mamba_pattern(beside));
  return all;
}

// The number of leading `ops` that match the pattern; `fits`: all of the pattern matches.
struct Match {
  std::size_t ops = 0;
  bool fits = false;
};
Match match(std::span<const LayerOp> ops, const BlockPattern& pattern) {
  std::size_t at = 0;
  for (const BlockPattern::Op& expected : pattern.ops) {
    if (at < ops.size() && ops[at] == expected.op)
      ++at;
    else if (!expected.optional)
      return {at, false};
  }
  return {at, true};
}

// The error for a list that matches no pattern; "after X" names the place.
Error no_pattern(std::span<const LayerOp> ops, std::size_t matched) {
  const std::string which =
      matched < ops.size() ? fmt::format("\"{}\"", text(ops[matched])) : "nothing more";
  const std::string after =
      matched > 0 ? fmt::format(" after \"{}\"", text(ops[matched - 1])) : std::string();
  return bad_input(fmt::format("{}{} is not executed", which, after));
}

// A bias or norm of the layer that no operation uses: kernels would apply it, because they apply
// all that exist.
std::optional<LayerWeight> unused_vector(const Layer& layer) {
  std::optional<LayerWeight> unused;
  for_each_vector(
      [&](LayerWeight weight, const std::vector<float>& values) {
        if (!unused && !values.empty() && !uses(layer.ops, weight)) unused = weight;
      },
      layer);
  return unused;
}

// An FFN or a mixer that reads what attention reads is computed right behind it: the norm is still
// there.
std::optional<Error> misplaced_ffn(const Model& model, int index,
                                   std::span<const FusedBlock> blocks) {
  const Layer& layer = model.layers[std::size_t(index)];
  if (layer.has_parallel_mixer() &&
      (blocks.size() < 2 || blocks[0] != FusedBlock::kAttention || blocks[1] != FusedBlock::kMamba))
    return bad_input(
        fmt::format("{}, layer {}: a mixer without a norm is executed behind attention",
                    model.spec.name, index));
  if (!layer.has_parallel_ffn()) return std::nullopt;
  const bool behind =
      blocks.size() == 2 && blocks[0] == FusedBlock::kAttention && uses(layer.ops, kAttentionNorm);
  if (behind) return std::nullopt;
  return bad_input(fmt::format("{}, layer {}: an FFN without a norm is executed behind attention",
                               model.spec.name, index));
}

}  // namespace

std::span<const BlockPattern> pre_norm_blocks() {
  static const std::vector<BlockPattern> all = {attention_pattern(), ffn_pattern(),
                                                experts_pattern()};
  return all;
}

std::span<const BlockPattern> decoder_blocks() {
  static const std::vector<BlockPattern> all = make_decoder_blocks();
  return all;
}

Result<std::vector<FusedBlock>> fuse(std::span<const LayerOp> ops,
                                     std::span<const BlockPattern> patterns) {
  std::vector<FusedBlock> blocks;
  while (!ops.empty()) {
    std::size_t furthest = 0;
    const auto fitting = std::ranges::find_if(patterns, [&](const BlockPattern& pattern) {
      const Match m = match(ops, pattern);
      furthest = std::max(furthest, m.ops);
      return m.fits;
    });
    if (fitting == patterns.end()) return no_pattern(ops, furthest);
    blocks.push_back(fitting->block);
    ops = ops.subspan(match(ops, *fitting).ops);
  }
  return blocks;
}

std::optional<Error> check_layers(const Model& model, std::span<const BlockPattern> patterns,
                                  std::string_view backend) {
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const auto blocks = fuse(model.layers[i].ops, patterns);
    if (!blocks)
      return bad_input(fmt::format("{}, layer {}: {} on {}", model.spec.name, i,
                                   blocks.error().message, backend));
    if (auto error = misplaced_ffn(model, int(i), *blocks)) return error;
    if (const auto weight = unused_vector(model.layers[i]))
      return bad_input(fmt::format("{}, layer {}: no operation uses \"{}\"", model.spec.name, i,
                                   name_of(*weight)));
  }
  return std::nullopt;
}

}  // namespace rigcast::engine
