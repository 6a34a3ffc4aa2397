#include "engine/backends/cuda/cuda_executor.cuh"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/scenario/engine_memory.hpp"
#include "engine/backends/cuda/forward/batch.cuh"
#include "engine/backends/cuda/forward/decode.cuh"
#include "engine/backends/cuda/forward/marked_stages.cuh"
#include "engine/backends/cuda/forward/random_tokens.cuh"
#include "engine/backends/cuda/gpu_memory.cuh"
#include "engine/backends/cuda/step_bytes.cuh"
#include "engine/backends/cuda/token_graphs.cuh"
#include "engine/backends/cuda/token_inputs.cuh"

namespace rigcast::engine::cuda {
namespace {

// nullopt: from more tokens than the GPU draws from.
std::optional<Draw> draw_of(const Sampler& sampler, std::int64_t vocabulary) {
  const Sampling& s = sampler.sampling();
  const std::int64_t kept = s.top_k > 0 ? std::min<std::int64_t>(s.top_k, vocabulary) : vocabulary;
  if (kept > kMostDrawnFrom) return std::nullopt;
  return Draw{s.temperature, int(kept), s.top_p, s.seed, sampler.drawn()};
}

class CudaExecutor : public Executor {
 public:
  CudaExecutor(std::unique_ptr<State> state, bool graphs)
      : state_(std::move(state)),
        graphs_wanted_(graphs),
        inputs_(state_->device.stream, state_->buffers) {}
  ~CudaExecutor() override { static_cast<void>(cudaDeviceSynchronize()); }

  std::span<const float> forward(std::span<const std::int32_t> tokens, Logits which) override;
  std::int32_t decode(std::int32_t token, Sampler& sampler) override;

  TokenCount cached() const override { return cached_; }
  void truncate(TokenCount tokens) override;
  void fill(TokenCount tokens) override;

  int threads() const override { return state_->host ? state_->host->side.threads() : 1; }
  const Model& model() const override { return *state_->model.model; }
  MovedBytes take_bytes() override;
  std::vector<DeviceMemory> gpus() const override { return {gpu_memory(state_->device.vram)}; }
  DeviceMemory host() const override { return host_memory(state_->ram); }

 private:
  void steps(std::span<const std::int32_t> tokens, Logits which);
  void batch(std::span<const std::int32_t> tokens);
  void one_token(std::int32_t token, Choice choice);
  void token_with_gpu(std::int32_t token, Choice choice);
  void token_on_host(std::int32_t token);
  void prepare_host();
  void launch_token(std::int32_t token, Choice choice, int slot);
  void queue_kernels(std::int32_t token, Choice choice, Stages* stages);
  void end_token_streams();
  void give_up_token() noexcept;
  void take_back_to(TokenCount tokens);
  void reserve(TokenCount tokens, bool batches);
  void take_room(TokenCount tokens, bool batches);
  void reserve_staged(TokenCount count);
  // Where the host decodes: who of the two has which tokens.
  Handover* handover() const {
    return state_->host && state_->host->handover ? &*state_->host->handover : nullptr;
  }
  const Stream& stream() const { return state_->device.stream; }
  const HostParts& on_host() const { return state_->on_host(); }
  void take_logits(std::size_t row);
  void head(TokenCount tokens, TokenCount first);
  std::int32_t chosen() const;
  int splits() const;
  StepBytes bytes_of_step(const BatchWay& way, std::int64_t tokens) const;
  void count(const StepBytes& step);
  void read_logits(std::size_t row);

  std::unique_ptr<State> state_;
  bool graphs_wanted_;
  TokenGraphs graphs_;
  TokenInputs inputs_;
  TokenCount cached_ = 0;
  MovedBytes moved_;
  std::vector<float> logits_;
};

// Contexts of one bucket share a graph: twice as many tokens as the one before it.
int CudaExecutor::splits() const {
  const auto bucket = std::bit_ceil(std::uint64_t(std::max<TokenCount>(cached_ + 1, 512)));
  return attention_splits(int(std::min<std::uint64_t>(bucket, 1 << 30)), state_->spec().kv_heads,
                          state_->device.multiprocessors, state_->kv.cache().holds_halves());
}

// Room for that many more tokens, and for the layers that are lent. The host computes batches where
// the GPU would else have none; its own memory is no larger for it.
void CudaExecutor::reserve(TokenCount tokens, bool batches) {
  try {
    take_room(tokens, batches);
  } catch (const ShortOfVram&) {
    if (!state_->streamed.stop_lending()) throw;
    graphs_.clear();
    take_room(tokens, batches);
  }
}

// The GPU's cache is for its batches alone where the host decodes.
void CudaExecutor::take_room(TokenCount tokens, bool batches) {
  if (batches || !on_host().decodes()) state_->kv.cache().reserve(cached_ + tokens, cached_);
  if (state_->host) state_->host->side.layers().cache().reserve(cached_ + tokens);
  reserve_staged(tokens);
}

// For a prompt once for all of its batches.
void CudaExecutor::reserve_staged(TokenCount count) {
  const TokenCount batch = std::min<TokenCount>(state_->ubatch(), count);
  if (batch > kFewTokens && state_->streamed.way_of_batch(cached_, batch).layers)
    state_->streamed.cache().reserve(cached_ + count);
}

void CudaExecutor::truncate(TokenCount tokens) {
  cached_ = std::min(cached_, tokens);
  state_->kv.cache().truncate(cached_);
  // The host's cache keeps its memory for the next request: new pages take longer to come than what
  // is written to them.
  if (Handover* const both = handover()) both->truncate(cached_);
}

// One token; its successor is chosen on the GPU, unless the head is on the host.
void CudaExecutor::one_token(std::int32_t token, Choice choice) {
  reserve(1, false);
  if (on_host().decodes()) return token_on_host(token);
  inputs_.place_position(cached_);
  inputs_.place_token(token);
  try {
    token_with_gpu(token, choice);
  } catch (...) {
    give_up_token();
    throw;
  }
  count(bytes_of_step({}, 1));
}

void CudaExecutor::token_on_host(std::int32_t token) {
  HostOffload& host = *state_->host;
  handover()->to_host(cached_, recorder_);
  host.side.layers().record_into(recorder_);
  host.side.decode(cached_, token);
  ++cached_;
  handover()->host_added(cached_);
}

void CudaExecutor::token_with_gpu(std::int32_t token, Choice choice) {
  state_->kv.split_cold();
  state_->kv.prepare_token();
  LayerStream* const streamed = state_->streamed.of_tokens();
  const int slot = streamed ? streamed->begin_token() : 0;
  prepare_host();
  if (recorder_) {
    MarkedStages stages(stream(), *recorder_);
    queue_kernels(token, choice, &stages);
    const StepBytes bytes = bytes_of_step({}, 1);
    stages.finish(cached_,
                  [&](ActivityKind kind, int layer) { return bytes.of_stage(kind, layer); });
  } else if (graphs_wanted_) {
    launch_token(token, choice, slot);
  } else {
    queue_kernels(token, choice, nullptr);
  }
  stream().wait();
  inputs_.chose(on_host().head() ? -1 : *state_->buffers.next_id.as<std::int32_t>());
}

// What is queued of a token ends with what it finds in the mailbox, and nothing of it is kept. What
// went wrong is told by who calls this, so that an error in here is not.
void CudaExecutor::give_up_token() noexcept {
  inputs_.forget();
  inputs_.forget_draw();  // it may have been drawn
  try {
    if (state_->host) state_->host->mailbox.release();
    stream().wait();
    if (state_->host) state_->host->mailbox.reset();
  } catch (const MachineError&) {
  }
}

// The context as it was before a call that has failed.
void CudaExecutor::take_back_to(TokenCount tokens) {
  static_cast<void>(cudaDeviceSynchronize());  // copies of a step that was not queued to its end
  inputs_.forget();
  truncate(tokens);
}

void CudaExecutor::end_token_streams() {
  if (LayerStream* const streamed = state_->streamed.of_tokens()) streamed->end_token();
}

void CudaExecutor::prepare_host() {
  if (!state_->host) return;
  HostSide& side = state_->host->side;
  side.layers().record_into(recorder_);
  if (const KvCache* const cold = state_->kv.on_host())
    side.attend_to({cold, state_->kv.cold_of_host()});
}

void CudaExecutor::launch_token(std::int32_t token, Choice choice, int slot) {
  const int parts = splits();
  graphs_.launch(stream(), {parts, choice, slot}, state_->kv.generation(),
                 [&] { queue_token(*state_, parts, choice, nullptr); });
  end_token_streams();
  HostOffload* const host = state_->host.get();
  if (!host) return;
  host->side.token(host->mailbox, stream(), cached_, token);
  if (const auto period = host->side.cold_period()) state_->kv.observe(*period);
}

// The driver takes some thousand launches ahead of the GPU; one more waits for the first to end. So
// the host takes each turn as soon as it is queued: what is queued never waits for the host.
void CudaExecutor::queue_kernels(std::int32_t token, Choice choice, Stages* stages) {
  HostOffload* const host = state_->host.get();
  struct EndTurns {
    HostOffload* host;
    ~EndTurns() {
      if (host) host->take_turn = nullptr;
    }
  } const end_turns{host};
  if (host) {
    host->side.begin_token(cached_);
    host->take_turn = [this, host, token] {
      host->side.answer_next(host->mailbox, stream(), cached_, token);
    };
  }
  queue_token(*state_, splits(), choice, stages);
  end_token_streams();
}

// A batch, whose hidden states are left.
void CudaExecutor::batch(std::span<const std::int32_t> tokens) {
  const int n = int(tokens.size());
  reserve(n, true);
  if (handover()) handover()->to_gpu(cached_, recorder_);
  inputs_.place_position(cached_);
  inputs_.place_ids(tokens);
  const StepBytes bytes = bytes_of_step(state_->streamed.way_of_batch(cached_, n), n);
  if (state_->host) state_->host->side.layers().record_into(recorder_);
  if (recorder_) {
    MarkedStages stages(stream(), *recorder_);
    queue_batch(*state_, cached_, tokens, &stages);
    stages.finish(cached_,
                  [&](ActivityKind kind, int layer) { return bytes.of_stage(kind, layer); });
  } else {
    queue_batch(*state_, cached_, tokens, nullptr);
  }
  count(bytes);
  if (handover()) handover()->gpu_added(cached_);
}

void CudaExecutor::read_logits(std::size_t row) {
  const std::size_t width = std::size_t(state_->spec().vocabulary);
  logits_.resize((row + 1) * width);
  RIGCAST_CUDA_CALL(cudaMemcpyAsync(logits_.data() + row * width, state_->buffers.token.logits,
                                    width * sizeof(float), cudaMemcpyDeviceToHost, stream().get()));
  stream().wait();
}

// Those of one token, wherever its head was.
void CudaExecutor::take_logits(std::size_t row) {
  if (!on_host().head()) return read_logits(row);
  const std::vector<float>& own = state_->host->side.logits();
  logits_.insert(logits_.end(), own.begin(), own.end());
}

// Logits of tokens [first, tokens) of the batch whose hidden states are left.
void CudaExecutor::head(TokenCount tokens, TokenCount first) {
  const std::size_t width = std::size_t(state_->spec().vocabulary);
  const ForwardContext f = state_->forward();
  if (!on_host().head()) {
    for (TokenCount i = first; i < tokens; ++i) {
      queue_head(f, int(i));
      read_logits(logits_.size() / width);
    }
    return;
  }
  state_->host->compute_logits(
      {f.hidden_row(int(first)), cached_ - tokens + first, int(tokens - first)});
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
  if (!state_->kv.on_host()) reserve(count, count > kFewTokens);  // all or nothing
  std::size_t row = 0;
  for (TokenCount done = 0; done < count;) {
    state_->stop.leave_if_asked();
    const bool few = count - done <= kFewTokens;
    const TokenCount now = few ? 1 : std::min<TokenCount>(state_->ubatch(), count - done);
    const auto part = tokens.subspan(std::size_t(done), std::size_t(now));
    done += now;
    const bool last = done == count;
    if (few) {
      one_token(part.front(), Choice::kLikeliest);
      if (which == Logits::kAll || (which == Logits::kLast && last)) take_logits(row++);
      continue;
    }
    batch(part);
    const TokenCount first = which == Logits::kAll ? 0 : now - 1;
    if (which == Logits::kNone || (which == Logits::kLast && !last)) continue;
    head(now, first);
    row += std::size_t(now - first);
  }
  stream().wait();
  if (handover()) handover()->to_host(cached_, recorder_);
}

// What the GPU has written as the next id.
std::int32_t CudaExecutor::chosen() const {
  if (inputs_.next() == kNoToken)
    throw MachineError(
        "the model's logits are not numbers (NaN): its weights, or the GPU, are bad");
  return inputs_.next();
}

std::int32_t CudaExecutor::decode(std::int32_t token, Sampler& sampler) {
  if (on_host().head()) return Executor::decode(token, sampler);
  if (sampler.is_greedy()) {
    one_token(token, Choice::kLikeliest);
    return chosen();
  }
  const auto draw = draw_of(sampler, model().spec.vocabulary);
  if (!draw) return Executor::decode(token, sampler);
  inputs_.place_draw(*draw);
  one_token(token, Choice::kDrawn);
  inputs_.count_draw();
  sampler.count_draw();
  return chosen();
}

void CudaExecutor::fill(TokenCount tokens) {
  if (!state_->kv.on_host()) reserve(tokens, true);
  if (state_->host) {
    state_->host->side.layers().cache().reserve(cached_ + tokens);
    state_->host->side.fill(cached_, tokens);
  }
  if (on_host().decodes()) {
    cached_ += tokens;
    handover()->host_added(cached_);
    return handover()->to_gpu(cached_, nullptr);  // as if the GPU had read it
  }
  for (TokenCount done = 0; done < tokens;) {
    const TokenCount now = std::min<TokenCount>(state_->ubatch(), tokens - done);
    reserve(now, true);
    inputs_.place_position(cached_);
    queue_random_tokens(state_->forward(), state_->kv.cache(), cached_, int(now));
    cached_ += now;
    done += now;
    inputs_.forget_position();
  }
  stream().wait();
}

StepBytes CudaExecutor::bytes_of_step(const BatchWay& way, std::int64_t tokens) const {
  return {state_->model, state_->kv, state_->streamed, way, cached_, tokens};
}

// Called once the step is queued.
void CudaExecutor::count(const StepBytes& step) {
  moved_ += step.all();
  cached_ += step.tokens;
  inputs_.moved_to(cached_);
}

MovedBytes CudaExecutor::take_bytes() {
  MovedBytes all = std::exchange(moved_, {});
  all += state_->kv.take_bytes();
  if (state_->host) all += state_->host->side.take_bytes();
  all += state_->streamed.take_bytes();
  if (handover()) all += handover()->take_bytes();
  return all;
}

}  // namespace

std::unique_ptr<Executor> executor_of(std::unique_ptr<State> state, bool graphs) {
  return std::make_unique<CudaExecutor>(std::move(state), graphs);
}

}  // namespace rigcast::engine::cuda
