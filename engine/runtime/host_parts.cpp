#include "engine/runtime/host_parts.hpp"

namespace rigcast::engine {

HostParts::HostParts(const ModelSpec& spec, const Placement& placement, bool shares_cold)
    : head_(placement.head_on == kHost), shares_cold_(shares_cold) {
  for (int i = 0; i < spec.layers; ++i) {
    const LayerPlacement& p = placement.layers[std::size_t(i)];
    Part part;
    part.layer = p.decode_on == kHost;
    part.cache = !part.layer && p.decode_cache_on == kHost;
    part.experts = !part.layer && spec.is_moe_layer(i) && p.decode_experts_on == kHost;
    parts_.push_back(part);
  }
}

bool HostParts::has(const Tensor& matrix) const {
  using enum TensorRole;
  // Tied embeddings are the head as well.
  if (matrix.role == kTokenEmbedding) return embedding() || head_;
  if (matrix.role == kOutput) return head_;
  const bool expert =
      matrix.role == kExpertGate || matrix.role == kExpertUp || matrix.role == kExpertDown;
  return matrix.layer >= 0 && (layer(matrix.layer) || (expert && experts(matrix.layer)));
}

int HostParts::end_of_layers(int first) const {
  while (first < int(parts_.size()) && layer(first)) ++first;
  return first;
}

std::vector<int> HostParts::layers_with_cache(bool on_host) const {
  std::vector<int> layers;
  for (int i = 0; i < int(parts_.size()); ++i)
    if ((layer(i) || cache(i)) == on_host) layers.push_back(i);
  return layers;
}

std::vector<HostCall> HostParts::calls() const {
  using enum HostCall::Kind;
  std::vector<HostCall> calls;
  for (int i = 0; i < int(parts_.size());) {
    if (const int end = end_of_layers(i); end > i) {
      calls.push_back({kLayers, i, end});
      i = end;
      continue;
    }
    if (cache(i))
      calls.push_back({kCache, i, i + 1});
    else if (shares_cold_)
      calls.push_back({kCold, i, i + 1});
    if (experts(i)) calls.push_back({kExperts, i, i + 1});
    ++i;
  }
  if (head_) calls.push_back({kHead, int(parts_.size()), int(parts_.size())});
  return calls;
}

}  // namespace rigcast::engine
