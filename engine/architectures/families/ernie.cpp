// ERNIE 4.5, dense and with experts: these are chosen by their softmax and a bias.

#include "engine/architectures/families/families.hpp"

namespace rigcast::engine {

namespace {

float rope_base(const ModelSpec&) { return 5e5f; }

constexpr Architecture ernie(std::string_view name) {
  return {.name = name,
          .rope_pairs = RopePairs::kInterleaved,
          .norm_eps = 1e-5f,
          .rope_base = rope_base,
          .keys = &kDecoderKeys};
}

constexpr Architecture kArchitectures[] = {ernie("ernie4_5"), ernie("ernie4_5-moe")};

}  // namespace

std::span<const Architecture> ernie_family() { return kArchitectures; }

}  // namespace rigcast::engine
