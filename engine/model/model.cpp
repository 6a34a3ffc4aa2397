#include "engine/model/model.hpp"

namespace rigcast::engine {

AttentionShape attention_shape(const ModelSpec& spec, int layer) {
  return {spec.heads, spec.kv_heads_of(layer), spec.head_dim_of(layer),
          spec.sees_all_tokens(layer) ? 0 : spec.window->tokens};
}

}  // namespace rigcast::engine
