#include "core/model/recurrent_kind.hpp"

#include <string_view>

namespace rigcast {

RecurrentKind recurrent_kind(const ModelSpec& model) {
  // A convolution keeps the inputs of as many tokens as published kernels have, or fewer.
  constexpr std::int64_t kMaxConvolvedTokens = 4;
  if (model.recurrent->state_bytes <= 4 * kMaxConvolvedTokens * model.hidden)
    return RecurrentKind::kShortConvolution;
  for (const std::string_view family : {"qwen3next", "qwen35", "kimi-linear"})
    if (model.architecture.starts_with(family)) return RecurrentKind::kDeltaNet;
  return RecurrentKind::kMamba;
}

}  // namespace rigcast
