#include "engine/backends/cuda/cuda_executor.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>

#include "engine/backends/cuda/marked_stages.cuh"
#include "engine/backends/cuda/state.cuh"
#include "engine/kernels/cuda/activations/random_rows.cuh"

namespace rigcast::engine {
namespace {

using cuda::Choice;
using cuda::MarkedStages;
using cuda::State;

double bytes_of(const std::vector<float>& v) { return double(v.size()) * sizeof(float); }

double attention_weights(const Layer& w) {
  return double(w.q.bytes() + w.k.bytes() + w.v.bytes() + w.output.bytes()) +
         bytes_of(w.attention_norm) + bytes_of(w.q_bias) + bytes_of(w.k_bias) + bytes_of(w.v_bias) +
         bytes_of(w.output_bias) + bytes_of(w.q_norm) + bytes_of(w.k_norm);
}

// nullopt: from more tokens than the GPU draws from.
std::optional<cuda::Draw> draw_of(const Sampler& sampler, std::int64_t vocabulary) {
  const Sampling& s = sampler.sampling();
  const std::int64_t kept = s.top_k > 0 ? std::min<std::int64_t>(s.top_k, vocabulary) : vocabulary;
  if (kept > cuda::kMostDrawnFrom) return std::nullopt;
  return cuda::Draw{s.temperature, int(kept), s.top_p, s.seed, sampler.drawn()};
}

class CudaExecutor : public Executor {
 public:
  CudaExecutor(std::unique_ptr<State> state, bool graphs)
      : state_(std::move(state)), graphs_wanted_(graphs) {}
  ~CudaExecutor() override { static_cast<void>(cudaDeviceSynchronize()); }

  std::span<const float> forward(std::span<const std::int32_t> tokens, Logits which) override;
  std::int32_t decode(std::int32_t token, Sampler& sampler) override;

  TokenCount cached() const override { return cached_; }
  void truncate(TokenCount tokens) override;
  void fill(TokenCount tokens) override;

  int threads() const override { return state_->host ? state_->host->side.threads() : 1; }
  const Model& model() const override { return *state_->model; }
  MovedBytes take_bytes() override;
  std::vector<DeviceMemory> gpus() const override;
  DeviceMemory host() const override { return host_memory(state_->ram); }

 private:
  void steps(std::span<const std::int32_t> tokens, Logits which);
  void step(std::span<const std::int32_t> tokens);
  void one_token(std::int32_t token, Choice choice);
  void token_with_gpu(std::int32_t token, Choice choice);
  void token_on_host(std::int32_t token);
  void prepare_host();
  void share_cold();
  void launch_token(std::int32_t token, Choice choice, int slot);
  void queue_kernels(std::int32_t token, Choice choice, cuda::Stages* stages);
  void end_token_streams();
  void give_up_token() noexcept;
  void take_back_to(TokenCount tokens);
  void reserve(TokenCount tokens, bool batches);
  void take_room(TokenCount tokens, bool batches);
  void reserve_staged(TokenCount count);
  // Where the host decodes: who of the two has which tokens.
  cuda::Handover* handover() const {
    return state_->host && state_->host->handover ? &*state_->host->handover : nullptr;
  }
  void take_logits(std::size_t row);
  void head(TokenCount tokens, TokenCount first);
  void place_ids(std::span<const std::int32_t> tokens);
  void place_position();
  void place_draw(const cuda::Draw& draw);
  std::int32_t chosen() const;
  void run_graph(int splits, Choice choice, int slot);
  int splits() const;
  double stage_bytes(ActivityKind kind, int layer, std::int64_t tokens) const;
  bool keeps_cache(int layer) const;
  TokenCount seen_here(int layer, std::int64_t tokens) const;
  void count(std::int64_t tokens);
  void read_logits(std::size_t row);

  struct TokenGraph {
    std::optional<RecordedGraph> graph;
    int generation = 0;  // of what it holds
  };

  std::unique_ptr<State> state_;
  bool graphs_wanted_;
  // By splits, and the slot that the first layer of those that are streamed is in.
  std::map<std::tuple<int, Choice, int>, TokenGraph> graphs_;
  cuda::BatchWay way_;  // of the step that is counted; a token's has none
  // How often the host's part of the cold blocks has changed, and the cache's generation it is for.
  int shares_ = 0;
  std::optional<int> shared_at_;
  TokenCount cached_ = 0;
  TokenCount position_ = -1;        // what the GPU has; negative: not known
  std::int32_t next_ = -1;          // the id that the GPU goes on with
  std::optional<cuda::Draw> draw_;  // what the GPU has
  MovedBytes moved_;
  std::vector<float> logits_;
};

// Contexts of one bucket share a graph: twice as many tokens as the one before it.
int CudaExecutor::splits() const {
  const auto bucket = std::bit_ceil(std::uint64_t(std::max<TokenCount>(cached_ + 1, 512)));
  return cuda::attention_splits(int(std::min<std::uint64_t>(bucket, 1 << 30)),
                                state_->spec().kv_heads, state_->multiprocessors,
                                state_->cache.holds_halves());
}

void CudaExecutor::place_ids(std::span<const std::int32_t> tokens) {
  RIGCAST_CUDA_CALL(cudaMemcpyAsync(state_->vectors.ids, tokens.data(), tokens.size_bytes(),
                                    cudaMemcpyHostToDevice, state_->stream.get()));
  next_ = -1;
}

void CudaExecutor::place_position() {
  if (position_ == cached_) return;
  cuda::set_position(state_->stream, state_->position(), std::int32_t(cached_));
  position_ = cached_;
}

void CudaExecutor::place_draw(const cuda::Draw& draw) {
  if (draw_ == draw) return;
  RIGCAST_CUDA_CALL(cudaMemcpyAsync(&state_->token.sampling->draw, &draw, sizeof draw,
                                    cudaMemcpyHostToDevice, state_->stream.get()));
  draw_ = draw;
}

void CudaExecutor::run_graph(int splits, Choice choice, int slot) {
  const auto queue = [&] { cuda::queue_token(*state_, splits, choice, nullptr); };
  const int generation = state_->cache.generation() + shares_;
  TokenGraph& token = graphs_[{splits, choice, slot}];
  if (!token.graph)
    token.graph.emplace(state_->stream, queue);
  else if (token.generation != generation)  // it holds what has changed
    token.graph->record_again(state_->stream, queue);
  token.generation = generation;
  token.graph->launch(state_->stream);
}

// Room for that many more tokens, and for the layers that are lent. The host computes batches where
// the GPU would else have none; its own memory is no larger for it.
void CudaExecutor::reserve(TokenCount tokens, bool batches) {
  try {
    take_room(tokens, batches);
  } catch (const cuda::ShortOfVram&) {
    if (!cuda::stop_lending(*state_)) throw;
    graphs_.clear();
    take_room(tokens, batches);
  }
}

// The GPU's cache is for its batches alone where the host decodes.
void CudaExecutor::take_room(TokenCount tokens, bool batches) {
  if (batches || !state_->on_host().decodes()) {
    state_->cache.reserve(cached_ + tokens, cached_);
  }
  if (state_->host) state_->host->side.layers().cache().reserve(cached_ + tokens);
  reserve_staged(tokens);
}

void CudaExecutor::truncate(TokenCount tokens) {
  cached_ = std::min(cached_, tokens);
  state_->cache.truncate(cached_);
  // The host's cache keeps its memory for the next request: new pages take longer to come than what
  // is written to them.
  if (cuda::Handover* const both = handover()) both->truncate(cached_);
}

// One token; its successor is chosen on the GPU, unless the head is on the host.
void CudaExecutor::one_token(std::int32_t token, Choice choice) {
  reserve(1, false);
  if (state_->on_host().decodes()) return token_on_host(token);
  place_position();
  if (token != next_) place_ids({&token, 1});
  try {
    token_with_gpu(token, choice);
  } catch (...) {
    give_up_token();
    throw;
  }
  count(1);
}

void CudaExecutor::token_on_host(std::int32_t token) {
  cuda::HostShare& host = *state_->host;
  handover()->to_host(cached_, recorder_);
  host.side.layers().record_into(recorder_);
  host.side.decode(cached_, token);
  ++cached_;
  handover()->host_added(cached_);
}

void CudaExecutor::token_with_gpu(std::int32_t token, Choice choice) {
  way_ = {};
  share_cold();
  if (cuda::ColdBlocks* const cold = state_->cache.cold()) cold->prepare_token(state_->host_blocks);
  const int slot = state_->streams_tokens() ? state_->streams.layers->begin_token() : 0;
  prepare_host();
  if (recorder_) {
    MarkedStages stages(state_->stream, *recorder_);
    queue_kernels(token, choice, &stages);
    stages.finish(cached_,
                  [&](ActivityKind kind, int layer) { return stage_bytes(kind, layer, 1); });
  } else if (graphs_wanted_) {
    launch_token(token, choice, slot);
  } else {
    queue_kernels(token, choice, nullptr);
  }
  state_->stream.wait();
  next_ = state_->on_host().head() ? -1 : *state_->next_id.as<std::int32_t>();
}

// What is queued of a token ends with what it finds in the mailbox, and nothing of it is kept. What
// went wrong is told by who calls this, so that an error in here is not.
void CudaExecutor::give_up_token() noexcept {
  position_ = next_ = -1;
  draw_.reset();  // it may have been drawn
  try {
    if (state_->host) state_->host->mailbox.release();
    state_->stream.wait();
    if (state_->host) state_->host->mailbox.reset();
  } catch (const MachineError&) {
  }
}

// The context as it was before a call that has failed.
void CudaExecutor::take_back_to(TokenCount tokens) {
  static_cast<void>(cudaDeviceSynchronize());  // copies of a step that was not queued to its end
  position_ = next_ = -1;
  truncate(tokens);
}

// Anew when blocks have become cold or come back, and once it is known how long a layer takes.
void CudaExecutor::share_cold() {
  const cuda::ColdBlocks* const cold = state_->cache.cold();
  if (!cold || !state_->on_host().shares_cold()) return;
  if (shared_at_ == state_->cache.generation()) return;
  shared_at_ = state_->cache.generation();
  const Bytes block{double(cold->host().layer_bytes())};
  const TokenCount blocks = state_->sharing.of_host(cold->count(), block);
  if (std::exchange(state_->host_blocks, blocks) != blocks) ++shares_;
}

void CudaExecutor::end_token_streams() {
  if (state_->streams_tokens()) state_->streams.layers->end_token();
}

void CudaExecutor::prepare_host() {
  if (!state_->host) return;
  cuda::HostShare& host = *state_->host;
  host.side.layers().record_into(recorder_);
  if (const cuda::ColdBlocks* const cold = state_->cache.cold())
    host.side.attend_to({&cold->host(), state_->cold_of_host()});
}

void CudaExecutor::launch_token(std::int32_t token, Choice choice, int slot) {
  run_graph(splits(), choice, slot);
  end_token_streams();
  if (!state_->host) return;
  state_->host->side.token(state_->host->mailbox, state_->stream, cached_, token);
  const auto period = state_->host->side.cold_period();
  if (!period) return;
  const Bytes of_host{double(state_->host_blocks) *
                      double(state_->cache.cold()->host().layer_bytes())};
  if (state_->sharing.took(*period, of_host)) shared_at_.reset();
}

// The driver takes some thousand launches ahead of the GPU; one more waits for the first to end. So
// the host takes each turn as soon as it is queued: what is queued never waits for the host.
void CudaExecutor::queue_kernels(std::int32_t token, Choice choice, cuda::Stages* stages) {
  cuda::HostShare* const host = state_->host.get();
  struct EndTurns {
    cuda::HostShare* host;
    ~EndTurns() {
      if (host) host->take_turn = nullptr;
    }
  } const end_turns{host};
  if (host) {
    host->side.begin_token(cached_);
    host->take_turn = [this, host, token] {
      host->side.answer_next(host->mailbox, state_->stream, cached_, token);
    };
  }
  cuda::queue_token(*state_, splits(), choice, stages);
  end_token_streams();
}

// A batch, whose hidden states are left.
void CudaExecutor::step(std::span<const std::int32_t> tokens) {
  reserve(TokenCount(tokens.size()), true);
  if (handover()) handover()->to_gpu(cached_, recorder_);
  place_position();
  place_ids(tokens);
  const int n = int(tokens.size());
  way_ = cuda::way_of_batch(*state_, cached_, n);
  if (state_->host) state_->host->side.layers().record_into(recorder_);
  if (recorder_) {
    MarkedStages stages(state_->stream, *recorder_);
    cuda::queue_batch(*state_, cached_, tokens, &stages);
    stages.finish(cached_,
                  [&](ActivityKind kind, int layer) { return stage_bytes(kind, layer, n); });
  } else {
    cuda::queue_batch(*state_, cached_, tokens, nullptr);
  }
  count(n);
  if (handover()) handover()->gpu_added(cached_);
}

void CudaExecutor::read_logits(std::size_t row) {
  const std::size_t width = std::size_t(state_->spec().vocabulary);
  logits_.resize((row + 1) * width);
  RIGCAST_CUDA_CALL(cudaMemcpyAsync(logits_.data() + row * width, state_->token.logits,
                                    width * sizeof(float), cudaMemcpyDeviceToHost,
                                    state_->stream.get()));
  state_->stream.wait();
}

// Those of one token, wherever its head was.
void CudaExecutor::take_logits(std::size_t row) {
  if (!state_->on_host().head()) return read_logits(row);
  const std::vector<float>& own = state_->host->side.logits();
  logits_.insert(logits_.end(), own.begin(), own.end());
}

// For a prompt once for all of its batches.
void CudaExecutor::reserve_staged(TokenCount count) {
  const TokenCount batch = std::min<TokenCount>(state_->ubatch, count);
  if (batch > kFewTokens && cuda::way_of_batch(*state_, cached_, batch).layers)
    state_->streams.cache->reserve(cached_ + count);
}

// Logits of tokens [first, tokens) of the batch whose hidden states are left.
void CudaExecutor::head(TokenCount tokens, TokenCount first) {
  const std::size_t width = std::size_t(state_->spec().vocabulary);
  if (!state_->on_host().head()) {
    for (TokenCount i = first; i < tokens; ++i) {
      cuda::queue_head(*state_, int(i));
      read_logits(logits_.size() / width);
    }
    return;
  }
  cuda::host_head(*state_, cached_ - tokens, int(first), int(tokens));
  const std::vector<float>& own = state_->host->side.logits();
  logits_.insert(logits_.end(), own.begin(), own.end());
}

std::span<const float> CudaExecutor::forward(std::span<const std::int32_t> tokens, Logits which) {
  const TokenCount before = cached_;
  logits_.clear();
  try {
    steps(tokens, which);
  } catch (...) {
    take_back_to(before);
    throw;
  }
  return logits_;
}

void CudaExecutor::steps(std::span<const std::int32_t> tokens, Logits which) {
  const TokenCount count = TokenCount(tokens.size());
  if (!state_->cache.cold()) reserve(count, count > kFewTokens);  // all or nothing
  std::size_t row = 0;
  for (TokenCount done = 0; done < count;) {
    state_->stop.leave_if_asked();
    const bool few = count - done <= kFewTokens;
    const TokenCount now = few ? 1 : std::min<TokenCount>(state_->ubatch, count - done);
    const auto part = tokens.subspan(std::size_t(done), std::size_t(now));
    done += now;
    const bool last = done == count;
    if (few) {
      one_token(part.front(), Choice::kLikeliest);
      if (which == Logits::kAll || (which == Logits::kLast && last)) take_logits(row++);
      continue;
    }
    step(part);
    const TokenCount first = which == Logits::kAll ? 0 : now - 1;
    if (which == Logits::kNone || (which == Logits::kLast && !last)) continue;
    head(now, first);
    row += std::size_t(now - first);
  }
  state_->stream.wait();
  if (handover()) handover()->to_host(cached_, recorder_);
}

// What the GPU has written as the next id.
std::int32_t CudaExecutor::chosen() const {
  if (next_ == cuda::kNoToken)
    throw MachineError(
        "the model's logits are not numbers (NaN): its weights, or the GPU, are bad");
  return next_;
}

std::int32_t CudaExecutor::decode(std::int32_t token, Sampler& sampler) {
  if (state_->on_host().head()) return Executor::decode(token, sampler);
  if (sampler.is_greedy()) {
    one_token(token, Choice::kLikeliest);
    return chosen();
  }
  const auto draw = draw_of(sampler, model().spec.vocabulary);
  if (!draw) return Executor::decode(token, sampler);
  place_draw(*draw);
  one_token(token, Choice::kDrawn);
  ++draw_->number;
  sampler.count_draw();
  return chosen();
}

void CudaExecutor::fill(TokenCount tokens) {
  if (!state_->cache.cold()) reserve(tokens, true);
  if (state_->host) {
    state_->host->side.layers().cache().reserve(cached_ + tokens);
    state_->host->side.fill(cached_, tokens);
  }
  if (state_->on_host().decodes()) {
    cached_ += tokens;
    handover()->host_added(cached_);
    return handover()->to_gpu(cached_, nullptr);  // as if the GPU had read it
  }
  const std::int64_t width = state_->q_width() + 2 * state_->kv_width();
  for (TokenCount done = 0; done < tokens;) {
    const TokenCount now = std::min<TokenCount>(state_->ubatch, tokens - done);
    reserve(now, true);
    place_position();
    cuda::make_turns(state_->stream, state_->weights.frequencies,
                     state_->model->hyper.rope_dims / 2, int(now), state_->position(),
                     state_->vectors.turns);
    for (int layer = 0; layer < state_->spec().layers; ++layer) {
      if (state_->cache.layer(layer) < 0) continue;
      const std::uint64_t first =
          (std::uint64_t(cached_) * 1024 + std::uint64_t(layer)) * std::uint64_t(width);
      cuda::random_values(state_->stream, first, state_->vectors.projected, now * width);
      cuda::place(state_->stream, cuda::placement_of(*state_, layer), state_->cache.view(layer),
                  state_->cache.layer(layer), int(now), state_->position(),
                  state_->vectors.queries);
    }
    cached_ += now;
    done += now;
    position_ = -1;
  }
  state_->stream.wait();
}

// Of a stage: its weights once, and what it reads and writes of the cache.
double CudaExecutor::stage_bytes(ActivityKind kind, int layer, std::int64_t tokens) const {
  const Model& m = *state_->model;
  const auto& w = m.layers[std::size_t(std::max(layer, 0))];
  switch (kind) {
    case ActivityKind::kAttention: {
      if (!keeps_cache(layer)) return attention_weights(w);
      const TokenCount seen = seen_here(layer, tokens);
      return attention_weights(w) + double((seen + tokens) * state_->cache.token_bytes());
    }
    case ActivityKind::kFfn:
      return double(w.gate.bytes() + w.up.bytes() + w.down.bytes()) + bytes_of(w.ffn_norm);
    case ActivityKind::kExperts: {
      if (state_->on_host().computes_experts(layer) && !cuda::brings_experts(*state_, way_, layer))
        return double(w.router.bytes()) + bytes_of(w.ffn_norm);
      const double one = double(w.expert_gate.first.bytes() + w.expert_up.first.bytes() +
                                w.expert_down.first.bytes());
      // Of a batch in groups, an expert at most once: which ones are chosen stays on the GPU.
      const bool groups = cuda::groups_experts(*state_, state_->weights.layers[std::size_t(layer)]);
      const double read = m.spec.moe->experts_used * double(tokens);
      return double(w.router.bytes()) + bytes_of(w.ffn_norm) +
             one * (groups ? std::min(read, double(m.spec.moe->experts)) : read);
    }
    case ActivityKind::kHead:
      return double(m.head.bytes()) + bytes_of(m.final_norm) + bytes_of(m.rope_factors);
    case ActivityKind::kFetchWeights: return state_->streams.layers->bytes(layer);
    default: return 0;
  }
}

// Tokens of the context that the GPU attends to in a step; the host has its share of one token's.
TokenCount CudaExecutor::seen_here(int layer, std::int64_t tokens) const {
  const TokenCount seen = state_->spec().attended_tokens(layer, cached_ + 1) + tokens - 1;
  return tokens > 1 ? seen : std::min(seen, cached_ + 1 - state_->cold_of_host());
}

// Keys and values of the step are the GPU's to read and write.
bool CudaExecutor::keeps_cache(int layer) const {
  return state_->cache.layer(layer) >= 0 || (way_.layers && state_->on_host().lent(layer));
}

// What a step moved; called once it is queued, with the tokens it began with still in cached_.
void CudaExecutor::count(std::int64_t tokens) {
  const Model& m = *state_->model;
  const double token_bytes = double(state_->cache.token_bytes());
  for (int layer = 0; layer < m.spec.layers; ++layer) {
    const bool brought = cuda::is_brought(*state_, way_, layer);
    if (state_->on_host().layer(layer) && !brought) continue;
    if (brought) moved_.to_gpu += state_->streams.layers->bytes(layer);
    if (keeps_cache(layer)) {
      moved_.kv_read += double(seen_here(layer, tokens)) * token_bytes;
      moved_.kv_written += double(tokens) * token_bytes;
    }
    moved_.weights += attention_weights(m.layers[std::size_t(layer)]);
    const bool moe = m.spec.is_moe_layer(layer);
    moved_.weights += stage_bytes(moe ? ActivityKind::kExperts : ActivityKind::kFfn, layer, tokens);
  }
  if (!state_->on_host().head()) moved_.weights += stage_bytes(ActivityKind::kHead, -1, tokens);
  if (const cuda::ColdBlocks* const cold = state_->cache.cold())
    moved_.to_gpu += cold->step_bytes();
  cached_ += tokens;
  position_ = cached_;
}

MovedBytes CudaExecutor::take_bytes() {
  MovedBytes all = std::exchange(moved_, {});
  if (cuda::ColdBlocks* const cold = state_->cache.cold()) {
    all.to_host += cold->take_moved_bytes();
    all.to_gpu += cold->take_prepared_bytes();
  }
  if (state_->host) all += state_->host->side.take_bytes();
  if (state_->streams.cache) all += state_->streams.cache->take_bytes();
  if (state_->streams.experts) all.to_gpu += state_->streams.experts->take_bytes();
  if (handover()) all += handover()->take_bytes();
  return all;
}

std::vector<DeviceMemory> CudaExecutor::gpus() const {
  std::size_t free = 0, total = 0;
  RIGCAST_CUDA_CALL(cudaMemGetInfo(&free, &total));
  DeviceMemory gpu{"GPU 0", Tier::kVram, {}, {}, {}, {}, {}, {}, {}};
  for (const cuda::Vram::Item& item : state_->vram.items()) {
    if (item.name == "weights")
      gpu.weights += item.held;
    else if (item.name == "KV cache")
      gpu.kv += item.held;
    else if (item.name == "upload buffers" || item.name == "streamed weights" ||
             item.name == "staged KV cache" || item.name == "KV on its way")
      gpu.staging += item.held;
    else
      gpu.activations += item.held;
  }
  gpu.capacity = Bytes{double(total)};
  gpu.overhead = Bytes{double(total - free)} - state_->vram.held();
  if (const auto limit = state_->vram.limit(); limit && *limit < gpu.capacity) {
    gpu.capacity = *limit;
    gpu.overhead = {};  // the limit is of what the engine takes
  }
  return {gpu};
}

}  // namespace

std::unique_ptr<Executor> cuda::executor_of(std::unique_ptr<State> state, bool graphs) {
  return std::make_unique<CudaExecutor>(std::move(state), graphs);
}

}  // namespace rigcast::engine
