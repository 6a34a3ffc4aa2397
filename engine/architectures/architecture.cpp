#include "engine/architectures/architecture.hpp"

#include <algorithm>
#include <array>

#include "core/base/error.hpp"

namespace rigcast::engine {

std::span<const Architecture> architectures() {
  static const std::array all = {kLlama, kQwen2, kQwen3, kQwen3Moe};
  return all;
}

const Architecture* find_architecture(std::string_view name) {
  const auto at = std::ranges::find(architectures(), name, &Architecture::name);
  return at == architectures().end() ? nullptr : &*at;
}

Hyperparameters default_hyperparameters(const ModelSpec& spec) {
  const Architecture* const known = find_architecture(spec.architecture);
  const Architecture& architecture = known ? *known : kLlama;
  Hyperparameters h;
  h.norm_eps = architecture.norm_eps;
  h.rope_dims = int(spec.head_dim);
  h.rope_pairs = architecture.rope_pairs;
  h.rope_base = architecture.rope_base(spec);
  return h;
}

std::vector<LayerOp> layer_ops(const ModelSpec& spec, int layer) {
  const Architecture* const architecture = find_architecture(spec.architecture);
  RIGCAST_ASSERT(architecture);
  return architecture->layer_ops(spec, layer);
}

}  // namespace rigcast::engine
