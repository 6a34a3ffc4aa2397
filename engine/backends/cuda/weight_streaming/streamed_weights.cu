#include "engine/backends/cuda/weight_streaming/streamed_weights.cuh"

#include <algorithm>
#include <iterator>

#include "core/model/traffic.hpp"
#include "core/scenario/engine_memory.hpp"
#include "engine/backends/cuda/weights/expert_groups.cuh"
#include "engine/model/layer_weights.hpp"

namespace rigcast::engine::cuda {
namespace {

double elements(const engine::Matrix& m) { return double(m.rows) * double(m.columns); }
double elements(const engine::MatrixStack& s) { return s ? elements(s.first) : 0; }
double bytes(const engine::MatrixStack& s) { return s ? double(s.first.bytes()) : 0; }

// Of a token's products in a layer, or in its experts and their router alone.
Flops flops_of_token(const Model& model, int layer, bool experts_alone) {
  const Layer& w = model.layers[std::size_t(layer)];
  const double used = model.spec.moe ? model.spec.moe->experts_used : 0;
  double sum = 0;
  for_each_matrix(
      [&](LayerWeight weight, const engine::Matrix& m) {
        if (!experts_alone || weight == LayerWeight::kRouter) sum += elements(m);
      },
      w);
  for_each_stack([&](LayerWeight, const engine::MatrixStack& s) { sum += used * elements(s); }, w);
  return Flops{2 * sum};
}

// Of the experts that so many tokens choose, when all are as likely.
Bytes bytes_of_experts(const Model& model, int layer, TokenCount tokens) {
  const Layer& w = model.layers[std::size_t(layer)];
  if (!model.spec.moe) return {};
  double one = 0;
  for_each_stack([&](LayerWeight, const engine::MatrixStack& s) { one += bytes(s); }, w);
  return Bytes{one * expected_experts(model.spec.moe->experts, model.spec.moe->experts_used,
                                      double(tokens))};
}

std::vector<int> merged(const std::vector<int>& a, const std::vector<int>& b) {
  std::vector<int> all;
  std::ranges::merge(a, b, std::back_inserter(all));
  return all;
}

}  // namespace

// Layers whose experts a batch may take in groups.
std::vector<int> StreamedWeights::layers_that_lend_experts() const {
  std::vector<int> layers;
  for (int i = 0; i < spec().layers; ++i)
    if (model_.host.lends_experts(i) && takes_groups(model_.layer(i))) layers.push_back(i);
  return has_short_batch() ? layers : std::vector<int>();
}

void StreamedWeights::drop() {
  layers_.reset();
  experts_.reset();
  staged_.reset();
  rates_ = {};
  for (int i = 0; i < spec().layers; ++i) {
    DeviceLayer& w = model_.gpu.layers[std::size_t(i)];
    if (model_.host.lent(i)) for_each_matrix([](LayerWeight, Matrix& m) { m = {}; }, w);
    if (model_.host.lends_experts(i))
      for_each_stack([](LayerWeight, MatrixStack& m) { m = {}; }, w);
  }
}

BatchRates StreamedWeights::measure(const std::vector<int>& lent, const std::vector<int>& experts) {
  const bool experts_alone = lent.empty();
  const int layer = experts_alone ? experts.front() : lent.front();
  const TokenCount tokens = timed_tokens(spec(), ubatch_);
  const Seconds time = host_->side.time_layer(layer, tokens, experts_alone);
  return {layers_ ? layers_->measure_link() : experts_->measure_link(),
          double(tokens) * flops_of_token(*model_.model, layer, experts_alone) / time};
}

BatchNeeds StreamedWeights::needs_of_layers(TokenCount cached, TokenCount tokens) const {
  BatchNeeds needs{{}, {}, tokens};
  const double cache = double(cached) * double(cache_.token_bytes());
  for (const int i : model_.host.lent_layers()) {
    needs.copied += Bytes{layers_->bytes(i) + cache};
    needs.copied += bytes_of_experts(*model_.model, i, tokens);
    needs.of_token += flops_of_token(*model_.model, i, false);
  }
  return needs;
}

BatchNeeds StreamedWeights::needs_of_experts(TokenCount tokens) const {
  BatchNeeds needs{{}, {}, tokens};
  for (const int i : layers_that_lend_experts()) {
    needs.copied += bytes_of_experts(*model_.model, i, tokens);
    needs.of_token += flops_of_token(*model_.model, i, true);
  }
  return needs;
}

// The next layer from `first` on that is lent; past the last: none.
int StreamedWeights::next_lent(int first) const {
  while (first < spec().layers && !model_.host.lent(first)) ++first;
  return first;
}

void StreamedWeights::fetch_cache(TokenCount cached, int layer) {
  if (layer < spec().layers) staged_->fetch(layer, cached);
}

void StreamedWeights::take_memory(BatchesBy by) {
  drop();
  by_ = by;
  const bool lends = by != BatchesBy::kHost;
  const auto lent = lends ? model_.host.lent_layers() : std::vector<int>();
  const auto experts = lends ? layers_that_lend_experts() : std::vector<int>();
  const auto layers = merged(model_.host.streamed_layers(), lent);
  const Model& model = *model_.model;
  if (!layers.empty())
    layers_ = std::make_unique<LayerStream>(vram_, stream_, model, model_.host, layers, model_.gpu);
  if (!experts.empty())
    experts_ = std::make_unique<ExpertStream>(vram_, stream_, model, experts, model_.gpu);
  if (!lent.empty())
    staged_ = std::make_unique<StagedCache>(vram_, stream_, layers_->copying(),
                                            host_->side.layers().cache(), cache_.block_layout());
  if (by == BatchesBy::kFaster && !(lent.empty() && experts.empty()))
    rates_ = measure(lent, experts);
}

bool StreamedWeights::stop_lending() {
  const bool lends = staged_ || experts_;
  if (!lends || by_ != BatchesBy::kFaster) return false;
  RIGCAST_CUDA_CALL(cudaDeviceSynchronize());
  take_memory(BatchesBy::kHost);
  return true;
}

BatchWay StreamedWeights::way_of_batch(TokenCount cached, TokenCount tokens) const {
  return {staged_ && copies(by_, needs_of_layers(cached, tokens), rates_),
          experts_ && copies(by_, needs_of_experts(tokens), rates_)};
}

bool StreamedWeights::is_brought(const BatchWay& way, int layer) const {
  return model_.host.streamed(layer) || (way.layers && model_.host.lent(layer));
}

bool StreamedWeights::brings_experts(const BatchWay& way, int layer) const {
  return way.experts && model_.host.lends_experts(layer) && groups_experts(model_.gpu_layer(layer));
}

void StreamedWeights::begin(const BatchWay& way, TokenCount cached, TokenCount tokens) {
  if (!layers_) return;
  if (way.layers) {
    staged_->reserve(cached + tokens);
    staged_->begin();
    fetch_cache(cached, next_lent(0));
  }
  layers_->begin(way.layers ? merged(model_.host.streamed_layers(), model_.host.lent_layers())
                            : model_.host.streamed_layers());
}

// The next layer's keys and values are asked for before the weights of the one behind it.
void StreamedWeights::bring_layer(TokenCount cached, int layer) {
  if (model_.host.lent(layer)) {
    staged_->take();
    fetch_cache(cached, next_lent(layer + 1));
  }
  layers_->take(layer);
}

void StreamedWeights::end(const BatchWay& way) {
  if (!layers_) return;
  layers_->end();
  if (way.layers) staged_->join();
}

MovedBytes StreamedWeights::take_bytes() {
  MovedBytes all;
  if (staged_) all += staged_->take_bytes();
  if (experts_) all.to_gpu += experts_->take_bytes();
  return all;
}

}  // namespace rigcast::engine::cuda
