#include "engine/architectures/architecture.hpp"

#include <algorithm>
#include <iterator>

#include "core/base/error.hpp"
#include "engine/architectures/decoder_layer.hpp"
#include "engine/architectures/families/families.hpp"

namespace rigcast::engine {

namespace {

std::vector<Architecture> all_architectures() {
  std::vector<Architecture> all;
  for (const auto family : kFamilies) std::ranges::copy(family(), std::back_inserter(all));
  return all;
}

const Architecture& known(const ModelSpec& spec) {
  const Architecture* const architecture = find_architecture(spec.architecture);
  RIGCAST_ASSERT(architecture);
  return *architecture;
}

}  // namespace

std::span<const Architecture> architectures() {
  static const std::vector<Architecture> all = all_architectures();
  return all;
}

const Architecture* find_architecture(std::string_view name) {
  const auto at = std::ranges::find(architectures(), name, &Architecture::name);
  return at == architectures().end() ? nullptr : &*at;
}

Hyperparameters default_hyperparameters(const ModelSpec& spec) {
  const Architecture* const own = find_architecture(spec.architecture);
  // Llama's, of an architecture that is not executed.
  const Architecture& architecture = own ? *own : *find_architecture("llama");
  Hyperparameters h;
  h.norm_eps = architecture.norm_eps;
  h.layer_norm = architecture.layer_norm;
  h.rope_dims = int(spec.head_dim);
  h.rope_pairs = architecture.rope_pairs;
  h.rope_base = architecture.rope_base(spec);
  if (architecture.set_usual) architecture.set_usual(spec, h);
  set_local_rope(spec, h);
  return h;
}

void set_local_rope(const ModelSpec& spec, Hyperparameters& hyper) {
  const Architecture* const own = find_architecture(spec.architecture);
  const LocalRope local = own ? own->local_rope : LocalRope::kSame;
  if (!spec.window || local == LocalRope::kSame) hyper.local_rope_base = 0;
  if (spec.window && local == LocalRope::kUnscaled) hyper.local_rope_base = hyper.rope_base;
}

std::vector<LayerOp> layer_ops(const ModelSpec& spec, int layer) {
  return decoder_layer(known(spec), spec, layer);
}

AttentionRule attention_rule(const ModelSpec& spec, const Hyperparameters& hyper, int layer) {
  AttentionRule rule;
  const bool is_local = hyper.local_rope_base > 0 && !spec.sees_all_tokens(layer);
  rule.rope = !rotates(known(spec), spec, layer) ? -1 : is_local ? 1 : 0;
  rule.score_scale = hyper.score_scale;
  rule.softcap = hyper.score_softcap;
  if (!spec.has_kv(layer)) rule.kv_layer = kv_layer_of(spec, layer);
  rule.norms_rotated = known(spec).norms_rotated;
  rule.plain_norms = norms_turned(known(spec), spec, layer);
  return rule;
}

}  // namespace rigcast::engine
