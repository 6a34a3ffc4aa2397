#include "engine/backends/cuda/cuda_executor.cuh"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "engine/backends/cpu/sampling/choose_tokens.hpp"
#include "engine/backends/cuda/forward/batch.cuh"
#include "engine/backends/cuda/forward/decode.cuh"
#include "engine/backends/cuda/forward/gpu_tracer.cuh"
#include "engine/backends/cuda/step_bytes.cuh"
#include "engine/backends/cuda/steps/gpu_memory.cuh"
#include "engine/backends/cuda/steps/random_tokens.cuh"
#include "engine/backends/cuda/steps/sampling_params.cuh"
#include "engine/backends/cuda/steps/token_graphs.cuh"
#include "engine/backends/cuda/steps/token_inputs.cuh"
#include "engine/cuda/sync_event.cuh"
#include "engine/kv/window_ring.hpp"
#include "engine/placement/prefill_offload.hpp"
#include "engine/run/state_history.hpp"

namespace rigcast::engine::cuda {
namespace {

// A sequence's state of recurrent layers, and the one that is kept of it.
constexpr int kCurrent = 0, kKept = 1;

class CudaExecutor : public Executor {
 public:
  CudaExecutor(std::unique_ptr<State> state, bool graphs)
      : state_(std::move(state)),
        graphs_wanted_(graphs),
        inputs_(state_->device.stream, state_->buffers),
        ring_(state_->spec(), state_->kv.cache().window_blocks(),
              state_->kv.cache().block_tokens()) {}
  ~CudaExecutor() override { static_cast<void>(cudaDeviceSynchronize()); }

  std::span<const float> forward(std::span<const std::int32_t> tokens, Logits which) override;
  std::int32_t decode(std::int32_t token, Sampler& sampler) override;
  void expect(TokenCount tokens) override { expected_ = tokens; }

  TokenCount cached() const override { return cached_; }
  void truncate(TokenCount tokens) override;
  void fill(TokenCount tokens) override;

  int threads() const override { return state_->host ? state_->host->side.threads() : 1; }
  const Model& model() const override { return *state_->model.model; }
  MovedBytes take_bytes() override;
  std::vector<DeviceMemory> gpus() const override { return {gpu_memory(state_->device.vram)}; }
  DeviceMemory host() const override { return host_memory(state_->ram); }

 private:
  bool is_recurrent() const { return state_->spec().recurrent.has_value(); }
  void move_states(bool to_gpu);
  void restore_state();
  void append(std::span<const std::int32_t> tokens);
  void copy_states(int from, int to);
  void clear_states();
  void steps(std::span<const std::int32_t> tokens, Logits which);
  void batch(std::span<const std::int32_t> tokens, int wanted);
  void one_token(std::int32_t token, SamplingMode choice);
  void token_with_gpu(std::int32_t token, SamplingMode choice);
  void queue_on_gpu(std::int32_t token, SamplingMode choice);
  void token_on_host(std::int32_t token);
  void prepare_host();
  void launch_token(std::int32_t token, SamplingMode choice, int slot);
  bool may_compute_ahead(SamplingMode choice) const;
  void launch_ahead(SamplingMode choice);
  void forget_ahead();
  void queue_kernels(std::int32_t token, SamplingMode choice, StageListener* stages);
  void end_token_streams();
  void abort_token() noexcept;
  void rollback_to(TokenCount tokens);
  void reserve(TokenCount tokens, bool batches);
  void reserve_caches(TokenCount tokens, bool batches);
  void reserve_staged(TokenCount count);
  // The mirror of keys and values, if the host decodes what the GPU has prefilled; otherwise
  // nullptr.
  KvMirror* kv_mirror() const {
    return state_->host && state_->host->kv_mirror ? &*state_->host->kv_mirror : nullptr;
  }
  const Stream& stream() const { return state_->device.stream; }
  const HostPlacement& on_host() const { return state_->on_host(); }
  void take_logits(std::size_t row);
  void head(int count);
  std::int32_t decode_with_host_head(std::int32_t token, Sampler& sampler);
  std::int32_t chosen() const;
  int splits(TokenCount cached) const;
  StepBytes bytes_of_step(const PrefillOffload& offload, std::int64_t tokens) const;
  void count(const StepBytes& step);
  void read_logits(std::size_t row);

  std::unique_ptr<State> state_;
  bool graphs_wanted_;
  TokenGraphs graphs_;
  TokenInputs inputs_;
  WindowRing ring_;
  StateHistory history_;  // of a model with recurrent layers
  TokenCount cached_ = 0;
  TokenCount expected_ = 0;  // calls of decode() that follow, each with the id before
  bool is_ahead_ = false;    // the token behind the cached ones is being computed, from that id
  // Of the tokens at even and at odd positions.
  std::array<SyncEvent, 2> ended_{SyncEvent(SyncEvent::Waiting::kSpin),
                                  SyncEvent(SyncEvent::Waiting::kSpin)};
  MovedBytes moved_;
  std::vector<float> logits_;
};

// The number of splits of attention. Context lengths of one bucket share a graph; a bucket is twice
// as long as the one before it.
int CudaExecutor::splits(TokenCount cached) const {
  const auto bucket = std::bit_ceil(std::uint64_t(std::max<TokenCount>(cached + 1, 512)));
  return splits_of_token(*state_, TokenCount(std::min<std::uint64_t>(bucket, 1 << 30)));
}

// Reserves memory for that many more tokens, and for offloaded layers. The host computes batches if
// the GPU would otherwise have no memory; the host's own memory is not larger for it.
void CudaExecutor::reserve(TokenCount tokens, bool batches) {
  try {
    reserve_caches(tokens, batches);
  } catch (const ShortOfVram&) {
    if (!state_->streamed.disable_prefill_offload()) throw;
    state_->kv.cache().forget_hot_blocks();  // there is more memory for them now
    graphs_.clear();
    reserve_caches(tokens, batches);
  }
}

// Reserves the caches. If the host decodes, the GPU needs its cache only for batches.
void CudaExecutor::reserve_caches(TokenCount tokens, bool batches) {
  if (batches || !on_host().decodes()) {
    DeviceCache& cache = state_->kv.cache();
    if (const KvEviction* const eviction = cache.eviction())
      cache.choose_hot_blocks(state_->streamed.staged_bytes_to_reserve(eviction->prompt_end));
    cache.reserve(cached_ + tokens, cached_);
  }
  if (state_->host) state_->host->side.layers().cache().reserve(cached_ + tokens);
  reserve_staged(tokens);
}

// Reserves the staged cache, once for all batches of a prompt.
void CudaExecutor::reserve_staged(TokenCount count) {
  const TokenCount batch = std::min<TokenCount>(state_->ubatch(), count);
  if (batch > kFewTokens && state_->streamed.choose_prefill_offload(cached_, batch).layers)
    state_->streamed.reserve_cache(cached_ + count);
}

void CudaExecutor::truncate(TokenCount tokens) {
  forget_ahead();
  cached_ = ring_.truncate(std::min(cached_, tokens));
  state_->kv.cache().truncate(cached_);
  // The host's cache keeps its memory for the next request: allocating new pages takes longer than
  // writing to them.
  if (KvMirror* const both = kv_mirror()) both->truncate(cached_);
  history_.truncate(cached_);
}

// Computes one token. The next one is chosen on the GPU, unless the head is on the host.
void CudaExecutor::one_token(std::int32_t token, SamplingMode choice) {
  if (choice != SamplingMode::kGreedy || token != inputs_.next()) forget_ahead();
  if (!is_ahead_) {
    reserve(1, false);
    ring_.write(cached_ + 1);
    history_.lose();
    if (on_host().decodes()) return token_on_host(token);
    inputs_.place_position(cached_);
    inputs_.place_token(token);
  }
  try {
    token_with_gpu(token, choice);
  } catch (...) {
    abort_token();
    throw;
  }
  count(bytes_of_step({}, 1));
  history_.reach(cached_);
}

void CudaExecutor::token_on_host(std::int32_t token) {
  HostOffload& host = *state_->host;
  kv_mirror()->to_host(cached_, recorder_);
  move_states(false);
  host.side.layers().record_into(recorder_);
  host.side.decode(cached_, token);
  ++cached_;
  kv_mirror()->host_added(cached_);
  history_.reach(cached_);
}

// Of recurrent layers whose states both sides have: moves them to the one that computes next.
void CudaExecutor::move_states(bool to_gpu) {
  if (!state_->state_mirror) return;
  StateMirror& states = *state_->state_mirror;
  to_gpu ? states.to_gpu(kCurrent, cached_) : states.to_host(kCurrent, cached_);
  to_gpu ? states.gpu_advances() : states.host_advances();
}

void CudaExecutor::token_with_gpu(std::int32_t token, SamplingMode choice) {
  if (!std::exchange(is_ahead_, false)) queue_on_gpu(token, choice);
  if (may_compute_ahead(choice)) launch_ahead(choice);
  ended_[std::size_t(cached_ % 2)].wait();
  inputs_.chose(on_host().head() ? -1 : state_->buffers.next_id(cached_));
}

void CudaExecutor::queue_on_gpu(std::int32_t token, SamplingMode choice) {
  move_states(false);  // those of the host's layers
  state_->kv.split_cold();
  state_->kv.prepare_token();
  LayerStream* const streamed = state_->streamed.of_tokens();
  const int slot = streamed ? streamed->begin_token() : 0;
  prepare_host();
  if (recorder_) {
    GpuTracer stages(stream(), *recorder_);
    queue_kernels(token, choice, &stages);
    const StepBytes bytes = bytes_of_step({}, 1);
    stages.finish(cached_,
                  [&](ActivityKind kind, int layer) { return bytes.of_stage(kind, layer); });
  } else if (graphs_wanted_) {
    launch_token(token, choice, slot);
  } else {
    queue_kernels(token, choice, nullptr);
  }
  ended_[std::size_t(cached_ % 2)].set(stream());
}

// Whether the GPU can begin with the token behind this one when it has chosen that: the host has no
// part in it, and nothing has to be allocated for it.
bool CudaExecutor::may_compute_ahead(SamplingMode choice) const {
  const bool gpu_alone = !on_host().any() && !state_->kv.on_host();
  return expected_ > 0 && choice == SamplingMode::kGreedy && graphs_wanted_ && !recorder_ &&
         gpu_alone && !is_recurrent() && state_->kv.cache().room() > cached_ + 1;
}

// Launches that token's kernels: between two graphs of which the second is launched when the first
// has ended, the GPU idles for 10 us and more.
void CudaExecutor::launch_ahead(SamplingMode choice) {
  const TokenCount next = cached_ + 1;
  const int parts = splits(next);
  ring_.write(next + 1);
  graphs_.launch(stream(), {parts, choice, 0}, state_->kv.generation(),
                 [&] { queue_token(*state_, parts, choice, nullptr); });
  ended_[std::size_t(next % 2)].set(stream());
  is_ahead_ = true;
}

// What it wrote behind the cached tokens will be written over.
void CudaExecutor::forget_ahead() {
  if (!std::exchange(is_ahead_, false)) return;
  stream().wait();
  inputs_.forget();
}

// Aborts a token: its queued kernels end with what they find in the mailbox, and no result is kept.
// The caller reports the original error, so errors in here are ignored.
void CudaExecutor::abort_token() noexcept {
  is_ahead_ = false;
  inputs_.forget();
  inputs_.forget_draw();  // the random number may have been used
  try {
    if (state_->host) state_->host->mailbox.release();
    stream().wait();
    if (state_->host) state_->host->mailbox.reset();
  } catch (const MachineError&) {
  }
}

// Restores the context to what it was before a failed call.
void CudaExecutor::rollback_to(TokenCount tokens) {
  static_cast<void>(cudaDeviceSynchronize());  // copies of a step that was queued in part
  is_ahead_ = false;
  inputs_.forget();
  // Where restoring a state has failed, evicted tokens behind it are gone.
  if (!state_->kv.on_host()) cached_ = std::max(cached_, tokens);
  truncate(tokens);
}

void CudaExecutor::end_token_streams() {
  if (LayerStream* const streamed = state_->streamed.of_tokens()) streamed->end_token();
}

void CudaExecutor::prepare_host() {
  if (!state_->host) return;
  HostWorker& side = state_->host->side;
  side.layers().record_into(recorder_);
  if (const KvCache* const cold = state_->kv.on_host())
    side.attend_to({cold, state_->kv.cold_of_host()});
}

void CudaExecutor::launch_token(std::int32_t token, SamplingMode choice, int slot) {
  const int parts = splits(cached_);
  graphs_.launch(stream(), {parts, choice, slot}, state_->kv.generation(),
                 [&] { queue_token(*state_, parts, choice, nullptr); });
  end_token_streams();
  HostOffload* const host = state_->host.get();
  if (!host) return;
  host->side.token(host->mailbox, stream(), cached_, token);
  if (const auto period = host->side.cold_period()) state_->kv.observe(*period);
}

// Queues the kernels of a token. The driver queues about a thousand launches ahead of the GPU; one
// more waits until the first has ended. So the host computes each of its operations as soon as its
// messages are queued, and no queued kernel waits for an operation that has not begun.
void CudaExecutor::queue_kernels(std::int32_t token, SamplingMode choice, StageListener* stages) {
  HostOffload* const host = state_->host.get();
  struct ClearHostOp {
    HostOffload* host;
    ~ClearHostOp() {
      if (host) host->run_host_op = nullptr;
    }
  } const end_turns{host};
  if (host) {
    host->side.begin_token(cached_);
    host->run_host_op = [this, host, token] {
      host->side.run_next_op(host->mailbox, stream(), cached_, token);
    };
  }
  queue_token(*state_, splits(cached_), choice, stages);
  end_token_streams();
}

// Computes a batch; the hidden states of its last `wanted` tokens stay on the GPU, as first rows.
void CudaExecutor::batch(std::span<const std::int32_t> tokens, int wanted) {
  const int n = int(tokens.size());
  reserve(n, true);
  ring_.write(cached_ + n);
  if (kv_mirror()) kv_mirror()->to_gpu(cached_, recorder_);
  const PrefillOffload offload = state_->streamed.choose_prefill_offload(cached_, n);
  move_states(on_host().decodes() || offload.layers);
  history_.lose();
  inputs_.place_position(cached_);
  inputs_.place_ids(tokens);
  StepBytes bytes = bytes_of_step(offload, n);
  bytes.wanted = wanted;
  if (state_->host) state_->host->side.layers().record_into(recorder_);
  if (recorder_) {
    GpuTracer stages(stream(), *recorder_);
    queue_batch(*state_, cached_, tokens, wanted, &stages);
    stages.finish(cached_,
                  [&](ActivityKind kind, int layer) { return bytes.of_stage(kind, layer); });
  } else {
    queue_batch(*state_, cached_, tokens, wanted, nullptr);
  }
  count(bytes);
  history_.reach(cached_);
  if (kv_mirror()) kv_mirror()->gpu_added(cached_);
}

void CudaExecutor::read_logits(std::size_t row) {
  const std::size_t width = std::size_t(state_->spec().vocabulary);
  logits_.resize((row + 1) * width);
  RIGCAST_CUDA_CALL(cudaMemcpyAsync(logits_.data() + row * width, state_->buffers.token.logits,
                                    width * sizeof(float), cudaMemcpyDeviceToHost, stream().get()));
  stream().wait();
}

// Fetches the logits of one token from where its head was computed.
void CudaExecutor::take_logits(std::size_t row) {
  if (!on_host().head()) return read_logits(row);
  const std::vector<float>& own = state_->host->side.logits();
  logits_.insert(logits_.end(), own.begin(), own.end());
}

// Computes the logits of the last `count` tokens of a batch, whose hidden states are on the GPU.
void CudaExecutor::head(int count) {
  const std::size_t width = std::size_t(state_->spec().vocabulary);
  const ForwardContext f = state_->forward();
  if (!on_host().head()) {
    for (int row = 0; row < count; ++row) {
      queue_head(f, row);
      read_logits(logits_.size() / width);
    }
    return;
  }
  state_->host->compute_logits({f.hidden_row(0), cached_ - count, count});
  const std::vector<float>& own = state_->host->side.logits();
  logits_.insert(logits_.end(), own.begin(), own.end());
}

std::span<const float> CudaExecutor::forward(std::span<const std::int32_t> tokens, Logits which) {
  const TokenCount before = cached_;
  logits_.clear();
  expected_ = 0;
  forget_ahead();
  try {
    if (is_recurrent()) restore_state();
    steps(tokens, which);
    if (is_recurrent()) append(tokens);
  } catch (...) {
    rollback_to(before);
    throw;
  }
  return logits_;
}

void CudaExecutor::steps(std::span<const std::int32_t> tokens, Logits which) {
  const TokenCount count = TokenCount(tokens.size());
  if (!state_->kv.on_host()) reserve(count, count > kFewTokens);  // all tokens or none
  std::size_t row = 0;
  for (TokenCount done = 0; done < count;) {
    state_->stop.throw_if_requested();
    const bool few = count - done <= kFewTokens;
    const TokenCount now = few ? 1 : std::min<TokenCount>(state_->ubatch(), count - done);
    const auto part = tokens.subspan(std::size_t(done), std::size_t(now));
    done += now;
    const bool last = done == count;
    if (few) {
      one_token(part.front(), SamplingMode::kGreedy);
      if (which == Logits::kAll || (which == Logits::kLast && last)) take_logits(row++);
      continue;
    }
    const int wanted = which == Logits::kAll ? int(now) : which == Logits::kLast && last ? 1 : 0;
    batch(part, wanted);
    if (wanted > 0) head(wanted);
    row += std::size_t(wanted);
  }
  stream().wait();
  if (kv_mirror()) kv_mirror()->to_host(cached_, recorder_);
  if (state_->state_mirror) state_->state_mirror->to_host(kCurrent, cached_);
}

void CudaExecutor::copy_states(int from, int to) {
  state_->states.copy(from, to);
  if (state_->host) state_->host->side.layers().states().copy(from, to);
}

void CudaExecutor::clear_states() {
  state_->states.clear(kCurrent);
  if (state_->host) state_->host->side.layers().states().clear(kCurrent);
}

// Computes the tokens that the states have not seen, and their keys and values once more.
void CudaExecutor::restore_state() {
  const TokenCount until = cached_;
  const auto begin = history_.begin_of(until);
  if (!begin) return;
  const std::vector<std::int32_t> missing = history_.tokens(begin->tokens, until);
  history_.lose();
  cached_ = begin->tokens;
  state_->kv.cache().truncate(cached_);
  if (kv_mirror()) kv_mirror()->truncate(cached_);
  if (begin->kept) copy_states(kKept, kCurrent);
  if (state_->state_mirror) state_->state_mirror->kept_is_current();
  steps(missing, Logits::kNone);
  history_.reach(until);
}

// Tokens were computed: the state after a prompt is kept.
void CudaExecutor::append(std::span<const std::int32_t> tokens) {
  if (!history_.append(tokens, cached_)) return;
  copy_states(kCurrent, kKept);
  if (state_->state_mirror) state_->state_mirror->current_is_kept();
}

// The next id, as the GPU has written it.
std::int32_t CudaExecutor::chosen() const {
  if (inputs_.next() == kNoToken)
    throw MachineError(
        "the model's logits are not numbers (NaN): its weights, or the GPU, are bad");
  return inputs_.next();
}

// A single token's logits are computed whether they are asked for or not; a copy of them would take
// one thread longer than all of them need to sample.
std::int32_t CudaExecutor::decode_with_host_head(std::int32_t token, Sampler& sampler) {
  const TokenCount before = cached_;
  forward({&token, 1}, Logits::kNone);
  HostWorker& host = state_->host->side;
  try {
    return sample(host.team(), {&sampler, host.logits()}, cached_, recorder_);
  } catch (...) {
    rollback_to(before);
    throw;
  }
}

std::int32_t CudaExecutor::decode(std::int32_t token, Sampler& sampler) {
  expected_ = std::max<TokenCount>(expected_ - 1, 0);
  if (on_host().head()) return decode_with_host_head(token, sampler);
  if (is_recurrent()) restore_state();
  if (sampler.is_greedy()) {
    one_token(token, SamplingMode::kGreedy);
    if (is_recurrent()) append({&token, 1});
    return chosen();
  }
  const auto draw = sampling_of(sampler, model().spec.vocabulary);
  if (!draw) return Executor::decode(token, sampler);
  inputs_.set_sampling(*draw);
  one_token(token, SamplingMode::kSampled);
  if (is_recurrent()) append({&token, 1});
  inputs_.count_draw();
  sampler.count_draw();
  return chosen();
}

void CudaExecutor::fill(TokenCount tokens) {
  forget_ahead();
  if (!state_->kv.on_host()) reserve(tokens, true);
  ring_.write(cached_ + tokens);
  if (cached_ == 0) clear_states();
  history_.fill(cached_ + tokens);
  // Any state is as good: that of layers on the host is there.
  if (state_->state_mirror && !on_host().decodes()) state_->state_mirror->host_advances();
  if (state_->host) {
    state_->host->side.layers().cache().reserve(cached_ + tokens);
    state_->host->side.fill(cached_, tokens);
  }
  if (on_host().decodes()) {
    cached_ += tokens;
    kv_mirror()->host_added(cached_);
    return kv_mirror()->to_gpu(cached_, nullptr);  // as if the GPU had prefilled it
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

StepBytes CudaExecutor::bytes_of_step(const PrefillOffload& offload, std::int64_t tokens) const {
  return {state_->model, state_->kv, state_->streamed, offload, cached_, tokens};
}

// Counts the step's tokens and bytes, once it is queued.
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
  if (kv_mirror()) all += kv_mirror()->take_bytes();
  if (state_->state_mirror) all += state_->state_mirror->take_bytes();
  return all;
}

}  // namespace

std::unique_ptr<Executor> executor_of(std::unique_ptr<State> state, bool graphs) {
  return std::make_unique<CudaExecutor>(std::move(state), graphs);
}

}  // namespace rigcast::engine::cuda
