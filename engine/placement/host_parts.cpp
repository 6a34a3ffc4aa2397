#include "engine/placement/host_parts.hpp"

#include "engine/model/model_bytes.hpp"

namespace rigcast::engine {

HostParts::HostParts(const ModelSpec& spec, const Placement& placement, bool shares_cold)
    : tied_(spec.tied_embeddings),
      head_(placement.head_on == kHost),
      shares_cold_(shares_cold),
      decodes_(placement.host_decodes()) {
  for (int i = 0; i < spec.layers; ++i) {
    const LayerPlacement& p = placement.layers[std::size_t(i)];
    Part part;
    const bool in_prompts = decodes_ && p.weights != kHost;  // the GPU's, and no longer
    const DeviceIndex experts = in_prompts ? p.experts : p.decode_experts_on;
    part.layer = p.decode_on == kHost && !in_prompts;
    part.cache = !part.layer && !in_prompts && p.decode_cache_on == kHost;
    part.moe = spec.is_moe_layer(i);
    part.experts = !part.layer && part.moe && experts == kHost;
    part.streamed = placement.streams_weights(i);
    part.lent = placement.lends(i);
    parts_.push_back(part);
  }
}

bool HostParts::has(TensorRole role, int i) const {
  using enum TensorRole;
  if (decodes_) return true;
  if (role == kTokenEmbedding) return embedding() || (tied_ && head_);
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

std::vector<int> HostParts::cached_layers() const {
  if (!decodes_) return layers_with_cache(true);
  std::vector<int> all;
  for (int i = 0; i < int(parts_.size()); ++i) all.push_back(i);
  return all;
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

std::int64_t HostParts::weight_bytes(const Model& model) const {
  if (decodes_) return model_bytes(model);
  const bool tied = model.head.data == model.embedding.data;
  std::int64_t bytes = 0;
  if (!tied || head_ || embedding()) bytes += model.embedding.bytes();
  // Beside the host's own one that the GPU takes rows from.
  if (head_ && (!tied || !embedding())) bytes += model.head.bytes();
  for (int i = 0; i < int(parts_.size()); ++i) {
    const Layer& l = model.layers[std::size_t(i)];
    bytes += layer(i) || streamed(i) ? layer_bytes(l) : experts(i) ? expert_bytes(l) : 0;
  }
  return bytes;
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
