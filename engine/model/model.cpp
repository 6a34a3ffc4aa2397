#include "engine/model/model.hpp"

#include <utility>

namespace rigcast::engine {

AttentionShape attention_shape(const ModelSpec& spec, int layer) {
  return {spec.heads, spec.kv_heads_of(layer), spec.head_dim_of(layer),
          spec.sees_all_tokens(layer) ? 0 : spec.window->tokens};
}

void choose_rope_factors(Model& model, TokenCount tokens) {
  if (model.long_rope_factors.empty()) return;
  const TokenCount longest = tokens > 0 ? tokens : model.spec.context;
  if (double(longest) > double(model.hyper.rope_context))
    model.rope_factors = std::exchange(model.long_rope_factors, {});
}

}  // namespace rigcast::engine
