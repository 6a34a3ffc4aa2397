#include "engine/model/fused_blocks.hpp"

#include <algorithm>
#include <vector>

#include "engine/architectures/architecture.hpp"
#include "tests/catch.hpp"
#include "tests/engine/tiny_model.hpp"

namespace rigcast::engine {
namespace {

using Blocks = std::vector<FusedBlock>;
using Ops = std::vector<LayerOp>;

Ops ops_of(const fixtures::TinyTraits& traits) { return layer_ops(fixtures::tiny_spec(traits), 0); }

std::string error_of(const Ops& ops) {
  const auto blocks = fuse(ops, pre_norm_blocks());
  return blocks ? std::string() : blocks.error().message;
}

// Of a tiny model's first layer, which is recurrent if any is.
FusedBlock first_block(Mixer mixer) {
  switch (mixer) {
    case Mixer::kNone: return FusedBlock::kAttention;
    case Mixer::kShortConvolution: return FusedBlock::kShortConvolution;
    case Mixer::kDeltaNet: return FusedBlock::kDeltaNet;
    case Mixer::kMamba: return FusedBlock::kMamba;
  }
  return {};
}

// Of a tiny model's first layer, which is recurrent if any is, and has experts or a dense FFN.
Blocks first_blocks(const Architecture& a, bool experts) {
  const FusedBlock ffn = experts ? FusedBlock::kExperts : FusedBlock::kFfn;
  if (a.single_blocks) return {FusedBlock::kMamba};
  if (a.mixes_beside) return {FusedBlock::kAttention, FusedBlock::kMamba, ffn};
  return {first_block(a.mixer), ffn};
}

}  // namespace

TEST_CASE("Layers of every architecture are blocks that backends fuse", "[engine][model]") {
  for (const Architecture& a : architectures())
    for (const bool bias : {false, true})
      for (const int experts : {0, 4}) {
        INFO(a.name);
        const fixtures::TinyTraits traits{.architecture = std::string(a.name),
                                          .qkv_bias = bias,
                                          .output_bias = bias,
                                          .experts = experts};
        if (experts > 0 && check_executable(fixtures::tiny_spec(traits))) continue;
        const Ops ops = ops_of(traits);
        const auto blocks = fuse(ops, decoder_blocks());
        REQUIRE(blocks);
        CHECK(*blocks == first_blocks(a, experts > 0));
      }
}

TEST_CASE("Blocks may come in any order and number", "[engine][model]") {
  const Ops ops = ops_of({});
  Ops twice = ops;
  twice.insert(twice.end(), ops.begin(), ops.end());
  twice.insert(twice.begin(), ops.end() - 3, ops.end());
  const auto blocks = fuse(twice, pre_norm_blocks());
  REQUIRE(blocks);
  using enum FusedBlock;
  CHECK(*blocks == Blocks{kFfn, kAttention, kFfn, kAttention, kFfn});
  CHECK(fuse(Ops{}, pre_norm_blocks())->empty());
}

// What is left out, doubled, moved or of another weight would be computed otherwise.
TEST_CASE("A list that is none of the blocks is refused with its first other operation",
          "[engine][model]") {
  const Ops ops = ops_of({.architecture = "qwen3"});
  const auto is_optional = [](const LayerOp& op) {
    return op.kind == OpKind::kAddBias || op.kind == OpKind::kHeadRmsNorm;
  };
  for (std::size_t i = 0; i < ops.size(); ++i) {
    INFO(text(ops[i]));
    Ops changed = ops;
    changed.erase(changed.begin() + std::ptrdiff_t(i));
    CHECK(error_of(changed).empty() == is_optional(ops[i]));
    changed = ops;
    changed.insert(changed.begin() + std::ptrdiff_t(i), ops[i]);
    CHECK_FALSE(error_of(changed).empty());
    changed = ops;
    changed[i].out =
        changed[i].out == Activation::kNormed ? Activation::kBranch : Activation::kNormed;
    CHECK_FALSE(error_of(changed).empty());
    changed = ops;
    changed[i].weights = {LayerWeight::kKBias};
    CHECK_FALSE(error_of(changed).empty());
  }
  Ops swapped = ops;
  std::swap(swapped[1], swapped[2]);
  CHECK(error_of(swapped) ==
        "\"key = linear(normed, attn_k.weight)\" after \"normed = rms_norm(hidden, "
        "attn_norm.weight)\" is not executed");
  CHECK(error_of({ops.begin(), ops.end() - 1}) ==
        "nothing more after \"branch = gated_ffn(normed, ffn_gate.weight, ffn_up.weight, "
        "ffn_down.weight)\" is not executed");
}

TEST_CASE("Operations take weights of their kinds, which the layer has", "[engine][model]") {
  for (const Architecture& a : architectures())
    for (const int experts : {0, 4}) {
      const fixtures::TinyTraits traits{.architecture = std::string(a.name),
                                        .layers = 1,
                                        .output_bias = true,
                                        .experts = experts};
      if (check_executable(fixtures::tiny_spec(traits))) continue;  // experts with GELU
      const auto tiny = fixtures::make_tiny_model(traits);
      const Layer& layer = tiny.model.layers[0];
      std::vector<LayerWeight> used, bound;
      for (const LayerOp& op : layer.ops)
        used.insert(used.end(), op.weights.begin(), op.weights.end());
      for_each_matrix(
          [&](LayerWeight w, const Matrix& m) {
            if (m) bound.push_back(w);
          },
          layer);
      for_each_stack(
          [&](LayerWeight w, const MatrixStack& s) {
            if (s) bound.push_back(w);
          },
          layer);
      for_each_vector(
          [&](LayerWeight w, const auto& v) {
            if (!v.empty()) bound.push_back(w);
          },
          layer);
      std::ranges::sort(used);
      std::ranges::sort(bound);
      CHECK(used == bound);
    }
}

}  // namespace rigcast::engine
