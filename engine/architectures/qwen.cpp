// Qwen2 and Qwen3, dense and with experts.

#include "engine/architectures/architecture.hpp"
#include "engine/architectures/pre_norm_decoder.hpp"

namespace rigcast::engine {

namespace {

// The RoPE base of the publishers' config.json.
float rope_base(const ModelSpec&) { return 1e6f; }

constexpr Architecture qwen(std::string_view name) {
  return {.name = name,
          .rope_pairs = RopePairs::kNeox,
          .norm_eps = 1e-6f,
          .rope_base = rope_base,
          .layer_ops = pre_norm_layer,
          .unexecuted_trait = not_pre_norm_decoder,
          .keys = &kDecoderKeys};
}

}  // namespace

constinit const Architecture kQwen2 = qwen("qwen2");
constinit const Architecture kQwen3 = qwen("qwen3");
constinit const Architecture kQwen3Moe = qwen("qwen3moe");

}  // namespace rigcast::engine
