#include "engine/backends/cuda/state.cuh"

#include <algorithm>

#include "core/scenario/engine_memory.hpp"
#include "engine/backends/cuda/pinned_memory.hpp"
#include "engine/kernels/cuda/batch/short_batch.cuh"

namespace rigcast::engine::cuda {
namespace {

// Pieces of one allocation, each aligned to 256 bytes: first counted, then handed out.
class Pieces {
 public:
  template <class T>
  void add(T*& place, std::int64_t count) {
    wishes_.push_back({reinterpret_cast<void**>(&place), bytes_});
    bytes_ += (std::size_t(std::max<std::int64_t>(count, 1)) * sizeof(T) + 255) / 256 * 256;
  }
  void add(Rounded& r, std::int64_t count) {
    add(r.q, count);
    add(r.scale, count / 32);
    add(r.sum16, count / 16);
  }
  VramPiece take(Vram& vram) {
    VramPiece memory = vram.take(bytes_, "activations");
    for (const auto& [place, at] : wishes_) *place = memory.as<std::byte>() + at;
    return memory;
  }

 private:
  std::vector<std::pair<void**, std::size_t>> wishes_;
  std::size_t bytes_ = 0;
};

int experts_used(const ModelSpec& spec) { return spec.moe ? spec.moe->experts_used : 1; }

// The widest FFN, of a layer or of one expert.
std::int64_t widest_middle(const Model& model) {
  std::int64_t width = 0;
  for (const Layer& l : model.layers)
    width = std::max({width, l.down.columns, l.expert_down.first.columns});
  return width;
}

// `ubatch`: tokens of a batch at most; `routed`: of those whose experts are taken at once.
ShortVectors short_vectors(const Model& model, int ubatch, int routed, Vram& vram) {
  ShortVectors v;
  if (!has_short_batch()) return v;
  const ModelSpec& m = model.spec;
  const int used = experts_used(m);
  v.tokens = std::min(ubatch, kMostShortBatch);
  if (m.moe && std::ranges::any_of(model.layers, takes_groups)) v.routed = std::min(ubatch, routed);
  const std::int64_t choices = std::int64_t(v.routed) * used;
  std::int64_t dense = 0, expert = 0;
  for (const Layer& l : model.layers) {
    dense = std::max(dense, l.down.columns);
    expert = std::max(expert, l.expert_down.first.columns);
  }
  Pieces all;
  all.add(v.between, std::max(v.tokens * dense, choices * expert));
  if (v.routed > 0) {
    ExpertGroups& g = v.groups;
    g.experts = m.moe->experts;
    g.chosen.used = used;
    all.add(v.middle, choices * expert);
    all.add(v.experts, choices * m.hidden);
    all.add(v.router_logits, std::int64_t(v.routed) * g.experts);
    all.add(g.chosen.ids, choices);
    all.add(g.chosen.weights, choices);
    all.add(g.counts, g.experts);
    all.add(g.order, choices);
    all.add(g.groups, most_groups(v.routed, used, g.experts, kLeastGroupTokens));
    all.add(g.group_count, 1);
  }
  v.memory = all.take(vram);
  return v;
}

// What a batch alone needs, whose sizes depend on the weights that are there.
void size_batches(State& s) {
  const std::int64_t n = s.ubatch, middle = widest_middle(*s.model);
  Pieces many;
  many.add(s.batch.x, n * std::max<std::int64_t>({s.spec().hidden, s.q_width(), middle}));
  many.add(s.batch.middle, 2 * n * middle);
  many.add(s.batch.weights, halves_for_batch(s.weights));
  s.batch.memory = many.take(s.vram);
  // What nobody but cuBLAS writes: initcheck does not see that it does.
  RIGCAST_CUDA_CALL(cudaMemsetAsync(s.batch.middle, 0, std::size_t(2 * n * middle) * sizeof(__half),
                                    s.stream.get()));
  s.shorts = short_vectors(*s.model, s.ubatch,
                           s.streams.experts ? kMostRoutedToCopied : kMostRouted, s.vram);
}

// The host computes batches where the GPU has no room to.
void size_streams(State& s, BatchesBy by) try {
  make_streams(s, by);
  size_batches(s);
} catch (const ShortOfMemory&) {
  if (by != BatchesBy::kFaster) throw;
  s.batch = {};
  make_streams(s, BatchesBy::kHost);
  size_batches(s);
}

std::size_t rows_bytes(const ModelSpec& m, TokenCount tokens) {
  return std::size_t(tokens) * message_floats(m) * sizeof(float);
}

}  // namespace

bool takes_groups(const Layer& l) {
  return takes_short_batch(l.expert_gate.first.format) &&
         takes_short_batch(l.expert_up.first.format) &&
         takes_short_batch(l.expert_down.first.format);
}

HostShare::HostShare(std::shared_ptr<const Model> model, const HostParts& parts,
                     const CpuOptions& options, BeforeTurn before_turn)
    : side(model, parts, options, std::move(before_turn)),
      mailbox(message_floats(model->spec)),
      buffers(options.ram.take(rows_bytes(model->spec, options.ubatch), "activations")),
      rows(rows_bytes(model->spec, options.ubatch), "rows of a batch") {}

namespace {

// Of the host's cache: what the GPU copies from and to is locked. What waits to be used again is
// still taken, and so counted.
MakeMemory cache_memory(const StateOptions& o) {
  const auto counted = [&](MakeMemory make) { return o.ram.counted("KV cache", std::move(make)); };
  if (o.kv_memory) return counted(o.kv_memory);
  if (o.host.decodes() && !o.host.layers_cached_on_gpu().empty()) return counted(make_pinned_block);
  if (!o.host.lent_layers().empty())
    return reused(o.ram, "KV cache", pinned_memory("KV cache", o.stop));
  return counted(make_large_pages);
}

// Of the host, where it computes.
std::unique_ptr<HostShare> make_host_share(std::shared_ptr<const Model> model,
                                           const StateOptions& o) {
  if (!o.host.computes()) return nullptr;
  CpuOptions cpu{o.threads, o.cache.types, o.cache.block_tokens, TokenCount(o.ubatch)};
  cpu.kv_memory = cache_memory(o);
  cpu.ram = o.ram;
  cpu.stop = o.stop;
  return std::make_unique<HostShare>(std::move(model), o.host, cpu, o.before_turn);
}

}  // namespace

State::State(std::shared_ptr<const Model> model_, DeviceModel weights_, Vram vram_,
             const StateOptions& options)
    : model(std::move(model_)),
      parts(options.host),
      ram(options.ram),
      vram(std::move(vram_)),
      weights(std::move(weights_)),
      cache(vram, stream, model->spec, options.cache,
            parts.any() ? parts.layers_cached_on_gpu() : all_layers(model->spec)),
      matmul(vram, stream),
      ubatch(options.ubatch),
      next_id(sizeof(std::int32_t), "next token"),
      host(make_host_share(model, options)),
      stop(options.stop),
      sharing(options.sharing) {
  if (options.host.decodes())
    host->handover.emplace(stream, cache, host->side.layers().cache(),
                           options.host.layers_cached_on_gpu());
  const ModelSpec& m = spec();
  RIGCAST_CUDA_CALL(
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, vram.device()));
  const std::int64_t n = ubatch, hidden = m.hidden, middle = widest_middle(*model);
  const std::int64_t projected = q_width() + 2 * kv_width();
  Pieces all;
  all.add(vectors.ids, n);
  all.add(vectors.hidden, n * hidden);
  all.add(vectors.normed, n * hidden);
  all.add(vectors.rounded, n * hidden);
  all.add(vectors.projected, n * projected);
  all.add(vectors.turns, n * (model->hyper.rope_dims / 2));
  all.add(vectors.queries, n * q_width());
  vectors.memory = all.take(vram);
  vectors.tokens = ubatch;

  // As many splits as the longest context gets, and the host's part.
  const int splits =
      1 + attention_splits(1 << 30, m.kv_heads, multiprocessors, cache.holds_halves());
  Pieces one;
  one.add(token.mixed, q_width());
  one.add(token.mixed_rounded, q_width());
  one.add(token.middle, middle * experts_used(m));
  one.add(token.middle_rounded, middle * experts_used(m));
  one.add(token.chosen.ids, experts_used(m));
  one.add(token.chosen.weights, experts_used(m));
  one.add(token.router_logits, m.moe ? m.moe->experts : 1);
  one.add(token.arrivals, 1);
  one.add(token.partials.m, std::int64_t(splits) * m.heads);
  one.add(token.partials.l, std::int64_t(splits) * m.heads);
  one.add(token.partials.o, std::int64_t(splits) * q_width());
  one.add(token.logits, m.vocabulary);
  one.add(token.argmax, 1);
  one.add(token.sampling, 1);
  one.add(token.position, 1);
  token.memory = one.take(vram);
  token.chosen.used = experts_used(m);
  RIGCAST_CUDA_CALL(
      cudaMemsetAsync(token.memory.as<std::byte>(), 0, token.memory.bytes(), stream.get()));

  // What nobody but cuBLAS writes: initcheck does not see that it does.
  RIGCAST_CUDA_CALL(cudaMemsetAsync(vectors.projected, 0,
                                    std::size_t(n * projected) * sizeof(float), stream.get()));
  size_streams(*this, options.batches_by);
}

int window_of(const ModelSpec& spec, int layer) {
  return spec.sees_all_tokens(layer) ? 0 : int(spec.window->tokens);
}

Placement placement_of(const State& s, int layer) {
  const DeviceLayer& w = s.weights.layers[std::size_t(layer)];
  const int q = s.q_width(), kv = s.kv_width();
  const std::int64_t stride = q + 2 * kv;
  const float* const rows = s.vectors.projected;
  const Hyperparameters& h = s.model->hyper;
  Placement p;
  p.q = {rows, stride, w.q_bias};
  p.k = {rows + q, stride, w.k_bias};
  p.v = {rows + q + kv, stride, w.v_bias};
  p.heads = s.spec().heads;
  p.q_norm = w.q_norm;
  p.k_norm = w.k_norm;
  p.norm_eps = h.norm_eps;
  p.pairs = h.rope_pairs;
  p.rope_dims = h.rope_dims;
  p.turns = s.vectors.turns;
  return p;
}

}  // namespace rigcast::engine::cuda
