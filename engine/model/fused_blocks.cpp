#include "engine/model/fused_blocks.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rigcast::engine {

namespace {

using enum OpKind;
using enum Activation;
using enum LayerWeight;

BlockPattern attention_pattern() {
  constexpr bool kIfAny = true;
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

}  // namespace

std::span<const BlockPattern> pre_norm_blocks() {
  static const std::vector<BlockPattern> all = {attention_pattern(), ffn_pattern(),
                                                experts_pattern()};
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
    if (const auto weight = unused_vector(model.layers[i]))
      return bad_input(fmt::format("{}, layer {}: no operation uses \"{}\"", model.spec.name, i,
                                   name_of(*weight)));
  }
  return std::nullopt;
}

}  // namespace rigcast::engine
