// What a batch has of layers and experts whose weights the host keeps: who computes them, and the
// copies that bring them.

#include <algorithm>

#include "core/model/traffic.hpp"
#include "core/scenario/engine_memory.hpp"
#include "engine/backends/cuda/state.cuh"
#include "engine/kernels/cuda/batch/short_batch.cuh"
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

// Layers whose experts a batch may take in groups.
std::vector<int> layers_that_lend_experts(const State& s) {
  std::vector<int> layers;
  for (int i = 0; i < s.spec().layers; ++i)
    if (s.parts.lends_experts(i) && takes_groups(s.model->layers[std::size_t(i)]))
      layers.push_back(i);
  return has_short_batch() ? layers : std::vector<int>();
}

std::vector<int> merged(const std::vector<int>& a, const std::vector<int>& b) {
  std::vector<int> all;
  std::ranges::merge(a, b, std::back_inserter(all));
  return all;
}

void drop_streams(State& s) {
  s.streams = {};
  for (int i = 0; i < s.spec().layers; ++i) {
    DeviceLayer& w = s.weights.layers[std::size_t(i)];
    if (s.parts.lent(i)) for_each_matrix([](LayerWeight, Matrix& m) { m = {}; }, w);
    if (s.parts.lends_experts(i)) for_each_stack([](LayerWeight, MatrixStack& m) { m = {}; }, w);
  }
}

BatchRates measured(State& s, const std::vector<int>& lent, const std::vector<int>& experts) {
  const bool experts_alone = lent.empty();
  const int layer = experts_alone ? experts.front() : lent.front();
  const TokenCount tokens = timed_tokens(s.spec(), s.ubatch);
  const Seconds time = s.host->side.time_layer(layer, tokens, experts_alone);
  return {s.streams.layers ? s.streams.layers->measure_link() : s.streams.experts->measure_link(),
          double(tokens) * flops_of_token(*s.model, layer, experts_alone) / time};
}

BatchNeeds needs_of_layers(const State& s, TokenCount cached, TokenCount tokens) {
  BatchNeeds needs{{}, {}, tokens};
  const double cache = double(cached) * double(s.cache.token_bytes());
  for (const int i : s.parts.lent_layers()) {
    needs.copied += Bytes{s.streams.layers->bytes(i) + cache};
    needs.copied += bytes_of_experts(*s.model, i, tokens);
    needs.of_token += flops_of_token(*s.model, i, false);
  }
  return needs;
}

BatchNeeds needs_of_experts(const State& s, TokenCount tokens) {
  BatchNeeds needs{{}, {}, tokens};
  for (const int i : layers_that_lend_experts(s)) {
    needs.copied += bytes_of_experts(*s.model, i, tokens);
    needs.of_token += flops_of_token(*s.model, i, true);
  }
  return needs;
}

// The next layer from `first` on that is lent; past the last: none.
int next_lent(const State& s, int first) {
  while (first < s.spec().layers && !s.parts.lent(first)) ++first;
  return first;
}

void fetch_cache(State& s, TokenCount cached, int layer) {
  if (layer < s.spec().layers) s.streams.cache->fetch(layer, cached);
}

}  // namespace

void make_streams(State& s, BatchesBy by) {
  drop_streams(s);
  s.streams.by = by;
  const bool lends = by != BatchesBy::kHost;
  const auto lent = lends ? s.parts.lent_layers() : std::vector<int>();
  const auto experts = lends ? layers_that_lend_experts(s) : std::vector<int>();
  const auto layers = merged(s.parts.streamed_layers(), lent);
  if (!layers.empty())
    s.streams.layers =
        std::make_unique<LayerStream>(s.vram, s.stream, *s.model, s.parts, layers, s.weights);
  if (!experts.empty())
    s.streams.experts =
        std::make_unique<ExpertStream>(s.vram, s.stream, *s.model, experts, s.weights);
  if (!lent.empty())
    s.streams.cache =
        std::make_unique<StagedCache>(s.vram, s.stream, s.streams.layers->copying(),
                                      s.host->side.layers().cache(), s.cache.block_layout());
  if (by == BatchesBy::kFaster && !(lent.empty() && experts.empty()))
    s.streams.rates = measured(s, lent, experts);
}

bool stop_lending(State& s) {
  const bool lends = s.streams.cache || s.streams.experts;
  if (!lends || s.streams.by != BatchesBy::kFaster) return false;
  RIGCAST_CUDA_CALL(cudaDeviceSynchronize());
  make_streams(s, BatchesBy::kHost);
  return true;
}

BatchWay way_of_batch(const State& s, TokenCount cached, TokenCount tokens) {
  const Streams& streams = s.streams;
  return {streams.cache && copies(streams.by, needs_of_layers(s, cached, tokens), streams.rates),
          streams.experts && copies(streams.by, needs_of_experts(s, tokens), streams.rates)};
}

bool is_brought(const State& s, const BatchWay& way, int layer) {
  return s.parts.streamed(layer) || (way.layers && s.parts.lent(layer));
}

bool brings_experts(const State& s, const BatchWay& way, int layer) {
  return way.experts && s.parts.lends_experts(layer) &&
         groups_experts(s, s.weights.layers[std::size_t(layer)]);
}

void begin_streams(State& s, const BatchWay& way, TokenCount cached, TokenCount tokens) {
  if (!s.streams.layers) return;
  if (way.layers) {
    s.streams.cache->reserve(cached + tokens);
    s.streams.cache->begin();
    fetch_cache(s, cached, next_lent(s, 0));
  }
  s.streams.layers->begin(way.layers ? merged(s.parts.streamed_layers(), s.parts.lent_layers())
                                     : s.parts.streamed_layers());
}

// The next layer's keys and values are asked for before the weights of the one behind it.
void bring_layer(State& s, TokenCount cached, int layer) {
  if (s.parts.lent(layer)) {
    s.streams.cache->take();
    fetch_cache(s, cached, next_lent(s, layer + 1));
  }
  s.streams.layers->take(layer);
}

void end_streams(State& s, const BatchWay& way) {
  if (!s.streams.layers) return;
  s.streams.layers->end();
  if (way.layers) s.streams.cache->join();
}

}  // namespace rigcast::engine::cuda
