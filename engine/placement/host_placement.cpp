#include "engine/placement/host_placement.hpp"

#include "engine/model/model_bytes.hpp"

namespace rigcast::engine {

HostPlacement::HostPlacement(const ModelSpec& spec, const Placement& placement, bool splits_cold_kv)
    : tied_(spec.tied_embeddings),
      head_(placement.head_on == kHost),
      splits_cold_kv_(splits_cold_kv),
      decodes_(placement.host_decodes()) {
  for (int i = 0; i < spec.layers; ++i) {
    const LayerPlacement& p = placement.layers[std::size_t(i)];
    Part part;
    const bool in_prompts = decodes_ && p.weights != kHost;  // the GPU's, and no longer
    const DeviceIndex experts = in_prompts ? p.experts : p.decode_experts_on;
    part.layer = p.decode_on == kHost && !in_prompts;
    part.recurrent = spec.has_recurrent_mixer(i);
    part.attends = spec.has_attention(i);
    part.cache = !part.layer && !in_prompts && part.attends && p.decode_cache_on == kHost;
    part.moe = spec.is_moe_layer(i);
    part.kv = spec.has_kv(i);
    // The host attends where the cache is to which the layer attends.
    if (const int from = kv_layer_of(spec, i); spec.has_attention(i) && !part.kv && from < i) {
      const Part& source = parts_[std::size_t(from)];
      part.cache = !part.layer && (source.layer || source.cache);
    }
    part.experts = !part.layer && part.moe && experts == kHost;
    part.streamed = placement.streams_weights(i);
    // Caches of these are staged one by one.
    part.offloadable = placement.offloadable(i) && spec.shared_kv_layers == 0;
    parts_.push_back(part);
  }
}

HostPlacement HostPlacement::whole_model() {
  HostPlacement all;
  all.decodes_ = true;
  return all;
}

bool HostPlacement::has(TensorRole role, int i) const {
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

int HostPlacement::end_of_layers(int first) const {
  while (first < int(parts_.size()) && layer(first)) ++first;
  return first;
}

std::vector<int> HostPlacement::cached_layers() const {
  if (!decodes_) return layers_with_cache(true);
  std::vector<int> all;
  for (int i = 0; i < int(parts_.size()); ++i)
    if (part(i).kv) all.push_back(i);
  return all;
}

std::vector<int> HostPlacement::layers_with_state() const {
  std::vector<int> layers;
  for (int i = 0; i < int(parts_.size()); ++i)
    if (part(i).recurrent && (decodes_ || layer(i))) layers.push_back(i);
  return layers;
}

std::vector<int> HostPlacement::layers_with_state_on_gpu() const {
  std::vector<int> layers;
  for (int i = 0; i < int(parts_.size()); ++i)
    if (part(i).recurrent && !layer(i)) layers.push_back(i);
  return layers;
}

std::vector<int> HostPlacement::offloadable_caches() const {
  std::vector<int> layers;
  for (int i = 0; i < int(parts_.size()); ++i)
    if (part(i).kv && offloadable(i)) layers.push_back(i);
  return layers;
}

std::vector<int> HostPlacement::offloadable_states() const {
  std::vector<int> layers;
  for (int i = 0; i < int(parts_.size()); ++i)
    if (part(i).recurrent && offloadable(i)) layers.push_back(i);
  return layers;
}

std::vector<int> HostPlacement::layers_with_cache(bool on_host) const {
  std::vector<int> layers;
  for (int i = 0; i < int(parts_.size()); ++i)
    if (part(i).kv && (layer(i) || cache(i)) == on_host) layers.push_back(i);
  return layers;
}

std::vector<int> HostPlacement::layers_that(bool Part::*is) const {
  std::vector<int> layers;
  for (int i = 0; i < int(parts_.size()); ++i)
    if (part(i).*is) layers.push_back(i);
  return layers;
}

std::int64_t HostPlacement::weight_bytes(const Model& model) const {
  if (decodes_) return model_bytes(model);
  const bool tied = model.head.data == model.embedding.data;
  std::int64_t bytes = 0;
  if (!tied || head_ || embedding()) bytes += model.embedding.bytes();
  bytes += model.input_embedding.bytes();  // of which the GPU reads rows
  // A tied matrix that the host uses both as embedding and as head is stored once; otherwise the
  // head is a copy of its own, beside the matrix from which the GPU reads embedding rows.
  if (head_ && (!tied || !embedding())) bytes += model.head.bytes();
  for (int i = 0; i < int(parts_.size()); ++i) {
    const Layer& l = model.layers[std::size_t(i)];
    bytes += layer(i) || streamed(i) ? layer_bytes(l) : experts(i) ? expert_bytes(l) : 0;
  }
  return bytes;
}

std::vector<HostOp> HostPlacement::calls() const {
  using enum HostOp::Kind;
  std::vector<HostOp> calls;
  for (int i = 0; i < int(parts_.size());) {
    if (const int end = end_of_layers(i); end > i) {
      calls.push_back({kLayers, i, end});
      i = end;
      continue;
    }
    if (cache(i))
      calls.push_back({kCache, i, i + 1});
    else if (splits_cold_kv_ && part(i).attends)
      calls.push_back({kCold, i, i + 1});
    if (experts(i)) calls.push_back({kExperts, i, i + 1});
    ++i;
  }
  if (head_) calls.push_back({kHead, int(parts_.size()), int(parts_.size())});
  return calls;
}

}  // namespace rigcast::engine
