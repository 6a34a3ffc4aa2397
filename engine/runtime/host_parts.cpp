#include "engine/runtime/host_parts.hpp"

namespace rigcast::engine {

HostParts::HostParts(const ModelSpec& spec, const Placement& placement, bool shares_cold)
    : head_(placement.head_on == kHost), shares_cold_(shares_cold) {
  for (int i = 0; i < spec.layers; ++i) {
    const LayerPlacement& p = placement.layers[std::size_t(i)];
    Part part;
    part.layer = p.decode_on == kHost;
    part.cache = !part.layer && p.decode_cache_on == kHost;
    part.moe = spec.is_moe_layer(i);
    part.experts = !part.layer && part.moe && p.decode_experts_on == kHost;
    part.streamed = placement.streams_weights(i);
    part.lent = part.layer && p.prefill_on != kHost;
    parts_.push_back(part);
  }
}

bool HostParts::has(TensorRole role, int i) const {
  using enum TensorRole;
  // Tied embeddings are the head as well.
  if (role == kTokenEmbedding) return embedding() || head_;
  if (role == kOutput) return head_;
  if (i < 0) return false;
  // The host routes a batch whose experts it computes.
  const bool of_experts =
      role == kExpertGate || role == kExpertUp || role == kExpertDown || role == kRouter;
  return layer(i) || streamed(i) || (of_experts && experts(i));
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

std::vector<int> HostParts::layers_that(bool Part::*is) const {
  std::vector<int> layers;
  for (int i = 0; i < int(parts_.size()); ++i)
    if (part(i).*is) layers.push_back(i);
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
