#include "engine/placement/check_traits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace rigcast::engine {
namespace {

bool any_layer(const Model& model, bool (*has)(const Layer&)) {
  return std::ranges::any_of(model.layers, has);
}

}  // namespace

std::optional<Error> check_traits_on_gpu(const Model& model) {
  const Hyperparameters& h = model.hyper;
  const std::pair<bool, std::string_view> traits[] = {
      {model.spec.fused_qkv, "q, k and v in one matrix"},
      {model.spec.fused_gate_up, "gate and up of the FFN in one matrix"},
      {any_layer(model, [](const Layer& l) { return l.has_wide_head_norms(); }),
       "norms over all heads"},
      {any_layer(model, [](const Layer& l) { return l.rule.rope != 0; }),
       "layers whose RoPE differs from that of others"},
      {any_layer(model, [](const Layer& l) { return l.rule.score_scale > 0; }),
       "a scale of attention's scores of its own"},
      {any_layer(model, [](const Layer& l) { return l.rule.softcap > 0; }),
       "soft caps of attention's scores"},
      {any_layer(model, [](const Layer& l) { return l.has_gelu(); }), "GELU"},
      {h.rope_magnitude != 1, "RoPE that scales what it rotates (YaRN, longrope)"},
      {!model.long_rope_factors.empty(), "two vectors of RoPE factors"},
      {h.temperature != 0, "queries that are scaled by position"},
      {h.embedding_scale != 1, "a scale of the embedding"},
      {h.residual_scale != 1, "a scale of the residual"},
      {h.logit_scale != 1, "a scale of the logits"},
      {h.logit_softcap > 0, "a soft cap of the logits"},
  };
  for (const auto& [has, words] : traits)
    if (has)
      return bad_input(
          fmt::format("{} has {}, which is not executed on a GPU yet", model.spec.name, words),
          "--device cpu");
  return std::nullopt;
}

}  // namespace rigcast::engine
