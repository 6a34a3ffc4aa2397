// Qwen2 and Qwen3, dense and with experts.

#include "engine/architectures/architecture.hpp"

namespace rigcast::engine {

namespace {

// As in the publishers' config.json.
float rope_base(const ModelSpec&) { return 1e6f; }

constexpr Architecture qwen(std::string_view name) {
  return {name, RopePairs::kHalves, 1e-6f, rope_base};
}

}  // namespace

constinit const Architecture kQwen2 = qwen("qwen2");
constinit const Architecture kQwen3 = qwen("qwen3");
constinit const Architecture kQwen3Moe = qwen("qwen3moe");

}  // namespace rigcast::engine
