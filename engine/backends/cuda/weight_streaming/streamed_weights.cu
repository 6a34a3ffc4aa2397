#include "engine/backends/cuda/weight_streaming/streamed_weights.cuh"

#include <algorithm>
#include <iterator>

#include "core/model/kv_bytes.hpp"
#include "core/model/traffic.hpp"
#include "engine/backends/cuda/weights/expert_groups.cuh"
#include "engine/model/layer_weights.hpp"

namespace rigcast::engine::cuda {
namespace {

double elements(const Matrix& m) { return double(m.rows) * double(m.columns); }
double elements(const MatrixStack& s) { return s ? elements(s.first) : 0; }
double bytes(const MatrixStack& s) { return s ? double(s.first.bytes()) : 0; }

// Floating-point operations of one token's products in a layer, or only in its experts and their
// router.
Flops flops_of_token(const Model& model, int layer, bool experts_alone) {
  const Layer& w = model.layers[std::size_t(layer)];
  const double used = model.spec.moe ? model.spec.moe->experts_used : 0;
  double sum = 0;
  for_each_matrix(
      [&](LayerWeight weight, const Matrix& m) {
        if (!experts_alone || weight == LayerWeight::kRouter) sum += elements(m);
      },
      w);
  for_each_stack([&](LayerWeight, const MatrixStack& s) { sum += used * elements(s); }, w);
  return Flops{2 * sum};
}

// Expected bytes of the experts that `tokens` tokens choose, if all are equally likely.
Bytes bytes_of_experts(const Model& model, int layer, TokenCount tokens) {
  const Layer& w = model.layers[std::size_t(layer)];
  if (!model.spec.moe) return {};
  double one = 0;
  for_each_stack([&](LayerWeight, const MatrixStack& s) { one += bytes(s); }, w);
  return Bytes{one * expected_experts(model.spec.moe->experts, model.spec.moe->experts_used,
                                      double(tokens))};
}

std::vector<int> merged(const std::vector<int>& a, const std::vector<int>& b) {
  std::vector<int> all;
  std::ranges::merge(a, b, std::back_inserter(all));
  return all;
}

}  // namespace

// Layers whose experts a batch may multiply in groups with streamed weights.
std::vector<int> StreamedWeights::layers_with_offloadable_experts() const {
  std::vector<int> layers;
  for (int i = 0; i < spec().layers; ++i)
    if (model_.host.experts_offloadable(i) && supports_grouped_gemm(model_.layer(i)))
      layers.push_back(i);
  return has_small_batch_gemm() ? layers : std::vector<int>();
}

void StreamedWeights::drop() {
  layers_.reset();
  experts_.reset();
  staged_.reset();
  offloads_layers_ = false;
  rates_ = {};
  for (int i = 0; i < spec().layers; ++i) {
    DeviceLayer& w = model_.gpu.layers[std::size_t(i)];
    if (model_.host.offloadable(i))
      for_each_matrix([](LayerWeight, DeviceMatrix& m) { m = {}; }, w);
    if (model_.host.experts_offloadable(i))
      for_each_stack([](LayerWeight, DeviceMatrixStack& m) { m = {}; }, w);
  }
}

// Of layers that attend, and of recurrent ones, the last is timed for all of them: the first may be
// one of a few without experts, whose rate is another.
OffloadRates StreamedWeights::measure(const std::vector<int>& offloadable,
                                      const std::vector<int>& experts) {
  const bool experts_alone = offloadable.empty();
  const TokenCount tokens = timed_tokens(spec(), ubatch_);
  Flops of_token;
  Seconds time;
  for (const bool recurrent : {false, true}) {
    std::vector<int> alike = experts_alone ? experts : offloadable;
    std::erase_if(alike, [&](int l) { return spec().has_recurrent_mixer(l) != recurrent; });
    if (alike.empty()) continue;
    time += double(alike.size()) * host_->side.time_layer(alike.back(), tokens, experts_alone);
    for (const int l : alike) of_token += flops_of_token(*model_.model, l, experts_alone);
  }
  return {layers_ ? layers_->measure_link() : experts_->measure_link(),
          double(tokens) * of_token / time};
}

OffloadCost StreamedWeights::offload_cost_of_layers(TokenCount cached, TokenCount tokens) const {
  OffloadCost needs{{}, {}, tokens};
  for (const int i : model_.host.offloadable_layers()) {
    const double cache = is_staged(i) ? double(cached) * double(cache_.token_bytes(i)) : 0;
    const double states = 2 * state_bytes(spec(), i);  // there and back
    needs.copied += Bytes{layers_->bytes(i) + cache + states};
    needs.copied += bytes_of_experts(*model_.model, i, tokens);
    needs.of_token += flops_of_token(*model_.model, i, false);
  }
  return needs;
}

OffloadCost StreamedWeights::offload_cost_of_experts(TokenCount tokens) const {
  OffloadCost needs{{}, {}, tokens};
  for (const int i : layers_with_offloadable_experts()) {
    needs.copied += bytes_of_experts(*model_.model, i, tokens);
    needs.of_token += flops_of_token(*model_.model, i, true);
  }
  return needs;
}

bool StreamedWeights::is_staged(int layer) const {
  return model_.host.offloadable(layer) && spec().has_kv(layer);
}

// Fetches keys and values of the next layer, from `first` on, whose cache is staged.
void StreamedWeights::fetch_cache(TokenCount cached, int first) {
  while (first < spec().layers && !is_staged(first)) ++first;
  if (first < spec().layers) staged_->fetch(first, cached);
}

void StreamedWeights::allocate_memory(PrefillOffloadPolicy by) {
  drop();
  by_ = by;
  const bool offloads = by != PrefillOffloadPolicy::kHost;
  const auto offloadable = offloads ? model_.host.offloadable_layers() : std::vector<int>();
  const auto experts = offloads ? layers_with_offloadable_experts() : std::vector<int>();
  const auto layers = merged(model_.host.streamed_layers(), offloadable);
  const Model& model = *model_.model;
  if (!layers.empty())
    layers_ = std::make_unique<LayerStream>(vram_, stream_, model, model_.host, layers, model_.gpu);
  if (!experts.empty())
    experts_ = std::make_unique<ExpertStream>(vram_, stream_, model, experts, model_.gpu);
  offloads_layers_ = !offloadable.empty();
  const auto caches = offloads ? model_.host.offloadable_caches() : std::vector<int>();
  if (!caches.empty())
    staged_ = std::make_unique<StagedCache>(vram_, stream_, layers_->copying(),
                                            host_->side.layers().cache(), cache_, caches);
  if (by == PrefillOffloadPolicy::kFaster && !(offloadable.empty() && experts.empty()))
    rates_ = measure(offloadable, experts);
}

bool StreamedWeights::disable_prefill_offload() {
  const bool offloads = offloads_layers_ || experts_;
  if (!offloads || by_ != PrefillOffloadPolicy::kFaster) return false;
  RIGCAST_CUDA_CALL(cudaDeviceSynchronize());
  allocate_memory(PrefillOffloadPolicy::kHost);
  return true;
}

PrefillOffload StreamedWeights::choose_prefill_offload(TokenCount cached, TokenCount tokens) const {
  return {offloads_layers_ && copies(by_, offload_cost_of_layers(cached, tokens), rates_),
          experts_ && copies(by_, offload_cost_of_experts(tokens), rates_)};
}

bool StreamedWeights::is_streamed_in(const PrefillOffload& offload, int layer) const {
  return model_.host.streamed(layer) || (offload.layers && model_.host.offloadable(layer));
}

bool StreamedWeights::streams_in_experts(const PrefillOffload& offload, int layer) const {
  return offload.experts && model_.host.experts_offloadable(layer) &&
         uses_grouped_gemm(model_.gpu_layer(layer));
}

void StreamedWeights::begin(const PrefillOffload& offload, TokenCount cached, TokenCount tokens) {
  if (!layers_) return;
  if (offload.layers && staged_) {
    staged_->reserve(cached + tokens);
    staged_->begin();
    fetch_cache(cached, 0);
  }
  layers_->begin(offload.layers
                     ? merged(model_.host.streamed_layers(), model_.host.offloadable_layers())
                     : model_.host.streamed_layers());
}

// Fetches the next layer's keys and values before the weights of the layer after it.
void StreamedWeights::stream_in_layer(TokenCount cached, int layer) {
  if (is_staged(layer)) {
    staged_->acquire();
    fetch_cache(cached, layer + 1);
  }
  layers_->acquire(layer);
}

void StreamedWeights::end(const PrefillOffload& offload) {
  if (!layers_) return;
  layers_->end();
  if (offload.layers && staged_) staged_->join();
}

void StreamedWeights::reserve_cache(TokenCount tokens) {
  if (staged_) staged_->reserve(tokens);
}

MovedBytes StreamedWeights::take_bytes() {
  MovedBytes all;
  if (staged_) all += staged_->take_bytes();
  if (experts_) all.to_gpu += experts_->take_bytes();
  return all;
}

}  // namespace rigcast::engine::cuda
