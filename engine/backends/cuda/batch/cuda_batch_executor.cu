#include "engine/backends/cuda/batch/cuda_batch_executor.cuh"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "core/base/error.hpp"
#include "engine/backends/cuda/batch/block_memory.cuh"
#include "engine/backends/cuda/batch/host_batch.cuh"
#include "engine/backends/cuda/batch/pool_size.hpp"
#include "engine/backends/cuda/batch/row_results.cuh"
#include "engine/backends/cuda/batch/sequence_bytes.cuh"
#include "engine/backends/cuda/batch/step_blocks.cuh"
#include "engine/backends/cuda/batch/step_inputs.cuh"
#include "engine/backends/cuda/batch/step_rows.hpp"
#include "engine/backends/cuda/batch/warm_up.hpp"
#include "engine/backends/cuda/forward/decode.cuh"
#include "engine/backends/cuda/forward/gpu_tracer.cuh"
#include "engine/backends/cuda/forward/sequence_step.cuh"
#include "engine/backends/cuda/steps/gpu_memory.cuh"
#include "engine/backends/cuda/steps/sampling_params.cuh"
#include "engine/backends/cuda/steps/token_graphs.cuh"
#include "engine/backends/cuda/steps/token_inputs.cuh"
#include "engine/kernels/cuda/attention/decode_attention.cuh"
#include "engine/kernels/cuda/attention/step_attention.cuh"
#include "engine/run/lost_states.hpp"

namespace rigcast::engine::cuda {
namespace {

// Room for the partial attention of so many rows times splits at once, more than the splits of one
// row; more rows take several launches.
constexpr int kPartialSplits = 4096;

// GPU memory that is left to the driver where the pool takes all there is: graphs need some.
constexpr double kLeftBytes = 512.0 * (1 << 20);

std::vector<int> layers_cached_on_gpu(const State& s) {
  std::vector<int> layers;
  for (int layer = 0; layer < s.spec().layers; ++layer)
    if (s.kv.cache().layer(layer) >= 0) layers.push_back(layer);
  return layers;
}

PoolBlockBytes block_bytes_of(const State& s) {
  PoolBlockBytes bytes;
  for (const int layer : layers_cached_on_gpu(s)) {
    const auto own = double(s.kv.cache().layout(layer).layer_bytes());
    bytes.layer = std::max(bytes.layer, own);
    if (!s.spec().sees_all_tokens(layer)) bytes.window += own;
  }
  bytes.layers = int(layers_cached_on_gpu(s).size());
  bytes.of_gpu = double(s.kv.cache().block_bytes());
  if (s.host) bytes.of_host = double(s.host->side.layers().cache().block_bytes());
  return bytes;
}

// What is left of the GPU's memory, and of a limit of the host's beside its buffers and the blocks
// that are moved out of the pool. Where blocks are cold, VRAM is filled up to the threshold.
PoolRoom room_of(const State& s, const BatchLimits& limits, const std::optional<KvEviction>& cold) {
  const Vram& vram = s.device.vram;
  const double free = vram.free().value, usable = vram.held().value + free;
  const double left = cold ? std::max(kLeftBytes, (1 - cold->threshold) * usable) : kLeftBytes;
  PoolRoom room{free - left, std::numeric_limits<double>::infinity()};
  if (!s.ram.limit()) return room;
  const PoolBlockBytes block = block_bytes_of(s);
  const double buffers = s.host ? HostBatch::buffer_bytes(*s.host, limits) : 0;
  room.host = (*s.ram.limit() - s.ram.held()).value - buffers -
              limits.host_blocks * (block.of_host + block.of_gpu);
  return room;
}

int most_sequences(const State& s, const BatchOptions& batch) {
  return std::min(batch.step_sequences, s.ubatch());
}

// A pool, and the limits of steps over its blocks.
struct Pool {
  PoolSize size;
  BatchLimits limits;
};

PoolSize size_of(const BatchOptions& batch, const std::optional<KvEviction>& cold,
                 TokenCount block_tokens, const PoolBlockBytes& bytes, const PoolRoom& room) {
  if (!batch.blocks) return largest_pool(cold, block_tokens, bytes, room);
  if (batch.least_blocks && !cold)
    return pool_within(*batch.least_blocks, *batch.blocks, bytes, room);
  return engine::pool_of(*batch.blocks, cold, block_tokens, bytes, room);
}

// Layers with a window may have a pool of their own where the GPU has all layers and their blocks.
TokenCount blocks_of_windows(const State& s, const BatchOptions& batch, const BatchLimits& limits,
                             bool cold) {
  if (!batch.windows_apart || cold || batch.host_blocks > 0 || s.on_host().any()) return 0;
  return window_pool_blocks(s.spec(), limits.step_sequences, limits.step_tokens,
                            limits.block_tokens, batch.checkpoints);
}

Pool pool_of(State& s, const BatchOptions& batch, const std::optional<KvEviction>& cold) {
  const auto block_tokens = s.kv.cache().block_tokens();
  Pool pool{{},
            {block_tokens, 1, batch.host_blocks, TokenCount(s.ubatch()), most_sequences(s, batch)}};
  PoolBlockBytes bytes = block_bytes_of(s);
  PoolRoom room = room_of(s, pool.limits, cold);
  const auto size_in = [&](const PoolBlockBytes& of, const PoolRoom& in) {
    return size_of(batch, cold, block_tokens, of, in);
  };
  const TokenCount windows = blocks_of_windows(s, batch, pool.limits, cold.has_value());
  if (keeps_windows_apart(windows, bytes, room, size_in)) {
    room = beside_windows(windows, bytes, room);
    bytes = bytes.without_windows();
    pool.limits.window_blocks = int(windows);
    pool.limits.window = s.spec().window->tokens;
    s.kv.cache().keep_windows_apart(s.spec(), windows);
  }
  pool.size = size_in(bytes, room);
  pool.limits.blocks = pool.size.blocks();
  pool.limits.cold_blocks = pool.size.cold;
  pool.limits.sequence_tokens = kMaxContext;
  if (s.spec().recurrent || pool.limits.window_blocks > 0)
    pool.limits.checkpoints = batch.checkpoints;
  return pool;
}

std::optional<RowResults> results_for(State& s, const BatchOptions& batch) {
  if (s.on_host().head()) return std::nullopt;
  return std::optional<RowResults>(std::in_place, s.device.vram, s.device.stream,
                                   most_sequences(s, batch) + kRowPadding, s.spec().vocabulary);
}

// Memory for partial results [row][split][heads].
struct PartialMemory {
  VramPiece memory;
  Partials partials;

  PartialMemory(const ModelSpec& spec, Vram& vram) {
    const std::int64_t heads = std::int64_t(spec.heads) * kPartialSplits;
    std::int64_t dim = 0;
    for (int layer = 0; layer < spec.layers; ++layer) dim = std::max(dim, spec.head_dim_of(layer));
    if (spec.mla) dim = spec.mla->kv_lora_rank;
    memory = vram.allocate(std::size_t(heads * (2 + dim)) * sizeof(float), "activations");
    partials.o = memory.as<float>();
    partials.m = partials.o + heads * dim;
    partials.l = partials.m + heads;
  }
};

class CudaBatchExecutor : public BatchExecutor {
 public:
  CudaBatchExecutor(std::unique_ptr<State> state, const BatchOptions& batch,
                    const BatchPlacement& placement)
      : state_(std::move(state)),
        results_(results_for(*state_, batch)),
        partials_(state_->spec(), state_->device.vram),
        pool_(pool_of(*state_, batch, placement.cold)),
        memory_(state_->device.vram, stream(), std::size_t(block_bytes_of(*state_).of_gpu),
                pool_.size, pool_.limits.host_blocks, placement.host_memory),
        window_memory_(make_window_memory(placement.host_memory)),
        ring_(make_ring()),
        blocks_(memory_, ring_ ? &*ring_ : nullptr, pool_.limits.block_tokens),
        lost_states_(pool_.limits.step_sequences),
        inputs_(state_->device.vram, pool_.limits),
        graphs_wanted_(placement.graphs && is_gpu_alone()),
        token_inputs_(stream(), state_->buffers) {
    if (ring_) state_->kv.use(*ring_);
    if (state_->host) host_.emplace(*state_->host, state_->ram, pool_.limits);
  }
  ~CudaBatchExecutor() override { static_cast<void>(cudaDeviceSynchronize()); }

  std::span<const std::int32_t> step(std::span<const SequenceStep> sequences) override;
  std::span<const float> logits(std::span<const SequenceStep> sequences) override;
  void warm_up() override;
  void move_out(std::span<const BlockCopy> copies) override;
  void move_in(std::span<const BlockCopy> copies) override;
  void finish_copies() override { stream().wait(); }
  void copy_state(int from, int to) override;
  std::size_t block_bytes() const override {
    return memory_.block_bytes() + (host_ ? host_->block_bytes() : 0);
  }
  void read_block(int block, std::span<std::byte> to) override;
  void write_block(int block, std::span<const std::byte> from) override;

  BatchLimits limits() const override { return pool_.limits; }
  int threads() const override { return state_->host ? state_->host->side.threads() : 1; }
  const Model& model() const override { return *state_->model.model; }
  MovedBytes take_bytes() override;
  std::vector<DeviceMemory> gpus() const override { return {gpu_memory(state_->device.vram)}; }
  DeviceMemory host() const override { return host_memory(state_->ram); }

 private:
  // Values on which a step's kernels depend, other than data on the GPU. Contexts of different
  // lengths may have as many splits, but tables at other distances.
  struct GraphKey {
    int rows = 0, splits = 0, table = 0;
    bool draw = false;
    auto operator<=>(const GraphKey&) const = default;
  };

  std::optional<ColdRing> make_ring() const {
    if (pool_.size.cold == 0) return std::nullopt;
    return std::optional<ColdRing>(std::in_place, state_->device.vram, stream(),
                                   state_->kv.cache().block_layout(), layers_cached_on_gpu(*state_),
                                   pool_.size.cold);
  }
  std::optional<BlockMemory> make_window_memory(const Allocator& host_memory) const {
    if (pool_.limits.window_blocks == 0) return std::nullopt;
    return std::optional<BlockMemory>(std::in_place, state_->device.vram, stream(),
                                      state_->kv.cache().window_block_bytes(),
                                      PoolSize{pool_.limits.window_blocks, 0}, 0, host_memory);
  }
  const BlockMemory* windows() const { return window_memory_ ? &*window_memory_ : nullptr; }
  bool takes_graphs() const { return graphs_wanted_ && !has_cold_blocks_; }
  // The GPU keeps the whole model: a step is queued, and may be recorded, without a wait.
  bool is_gpu_alone() const { return !state_->on_host().any(); }
  bool is_one_token(const RowOrder& order) const { return order.tokens == 1 && is_gpu_alone(); }
  void compute(std::span<const SequenceStep> sequences, const RowOrder& order, bool all_logits);
  void queue_rows(std::span<const SequenceStep> sequences, const RowOrder& order, bool all_logits);
  StepShape place(std::span<const SequenceStep> sequences, const RowOrder& order, bool all_logits);
  bool place_samplers(std::span<const SequenceStep> sequences, const RowOrder& order, int singles,
                      bool all_logits);
  SequenceRows rows_of(const RowOrder& order, const StepShape& shape) const;
  void queue_all(const SequenceRows& rows, bool draw, StageListener* stages);
  void queue_head(const SequenceRows& rows, int count, bool draw, StageListener* stages);
  void launch(const SequenceRows& rows, bool draw);
  void queue_one(const SequenceStep& sequence, bool choose);
  template <class Queue>
  void queue_traced(TokenCount cached, const Queue& queue);
  std::int32_t take_one(Sampler* sampler);
  const Stream& stream() const { return state_->device.stream; }

  std::unique_ptr<State> state_;
  std::optional<RowResults> results_;  // absent: the head is on the host
  PartialMemory partials_;
  Pool pool_;
  BlockMemory memory_;
  std::optional<BlockMemory> window_memory_;  // absent: windows are not apart
  std::optional<ColdRing> ring_;              // absent: no block is cold
  StepBlocks blocks_;
  bool has_cold_blocks_ = false;  // the step that is computed
  LostStates lost_states_;
  StepInputs inputs_;
  bool graphs_wanted_;
  TokenGraphs token_graphs_;
  TokenInputs token_inputs_;
  std::optional<HostBatch> host_;  // absent: the host computes nothing
  Stream restores_;                // of write_block(): no step's work waits for it
  std::map<GraphKey, RecordedGraph> graphs_;
  std::vector<int> row_of_;  // rows of results, by sequence
  std::vector<std::int32_t> ids_;
  std::vector<float> logits_;
  MovedBytes moved_;
};

// Records the stages of what `queue` queues, and waits for it.
template <class Queue>
void CudaBatchExecutor::queue_traced(TokenCount cached, const Queue& queue) {
  GpuTracer stages(stream(), *recorder_);
  queue(&stages);
  stages.finish(cached, [](ActivityKind, int) { return 0.0; });
}

// Queues the only token of a step by the kernels for one, which take its block table as the list of
// the cache's blocks.
void CudaBatchExecutor::queue_one(const SequenceStep& sequence, bool choose) {
  std::vector<std::byte*> blocks;
  for (const int block : sequence.blocks) blocks.push_back(blocks_.address(block));
  std::vector<std::byte*> of_windows;
  for (std::size_t b = 0; window_memory_ && b < blocks.size(); ++b)
    of_windows.push_back(window_memory_->block(sequence.window_blocks[b]));
  state_->kv.cache().list_blocks(std::move(blocks), std::move(of_windows));
  SamplingMode mode = SamplingMode::kGreedy;
  const Sampler* const sampler = choose ? sequence.sampler : nullptr;
  const auto draw = sampler && !sampler->is_greedy()
                        ? sampling_of(*sampler, state_->spec().vocabulary)
                        : std::nullopt;
  if (draw) {
    token_inputs_.set_sampling(*draw);
    mode = SamplingMode::kSampled;
  }
  token_inputs_.place_position(sequence.cached);
  token_inputs_.place_state(sequence.state);
  token_inputs_.place_token(sequence.tokens.front());
  const int splits = splits_of_token(*state_, padded_context(sequence.cached + 1));
  if (recorder_)
    queue_traced(sequence.cached,
                 [&](StageListener* stages) { queue_token(*state_, splits, mode, stages); });
  else if (takes_graphs())
    token_graphs_.launch(stream(), {splits, mode, 0}, state_->kv.generation(),
                         [&] { queue_token(*state_, splits, mode, nullptr); });
  else
    queue_token(*state_, splits, mode, nullptr);
  stream().wait();
  token_inputs_.moved_to(sequence.cached + 1);
  token_inputs_.chose(state_->buffers.next_id(sequence.cached));
  if (draw) token_inputs_.count_draw();
}

// The id that queue_one() has chosen.
std::int32_t CudaBatchExecutor::take_one(Sampler* sampler) {
  if (!sampler) return BatchExecutor::kNoToken;
  const std::int32_t id = token_inputs_.next();
  if (id == cuda::kNoToken) return kNotNumbers;
  if (sampler->is_greedy()) return id;
  if (sampling_of(*sampler, state_->spec().vocabulary)) {
    sampler->count_draw();
    return id;
  }
  logits_.resize(std::size_t(state_->spec().vocabulary));
  RIGCAST_CUDA_CALL(cudaMemcpyAsync(logits_.data(), state_->buffers.token.logits,
                                    logits_.size() * sizeof(float), cudaMemcpyDeviceToHost,
                                    stream().get()));
  stream().wait();
  return sampler->next(logits_);
}

// Logits of the first `count` rows of hidden states, and what is chosen from them.
void CudaBatchExecutor::queue_head(const SequenceRows& rows, int count, bool draw,
                                   StageListener* stages) {
  if (!results_) {
    if (stages) stages->begin(ActivityKind::kHandoff, -1);
    if (!host_->head_rows().empty())
      state_->host->compute_logits({state_->buffers.vectors.hidden, rows.owners, rows.rows},
                                   host_->head_rows());
    return;
  }
  if (stages) stages->begin(ActivityKind::kHead, -1);
  queue_heads(state_->forward(), count, results_->logits());
  if (stages) stages->begin(ActivityKind::kSample, -1);
  if (count > 0) results_->queue_choice(count, draw, stream());
}

void CudaBatchExecutor::queue_all(const SequenceRows& rows, bool draw, StageListener* stages) {
  const int count = queue_sequences(*state_, rows, stages);
  queue_head(rows, count, draw, stages);
}

void CudaBatchExecutor::launch(const SequenceRows& rows, bool draw) {
  const GraphKey key{rows.rows, rows.splits.count, rows.table_stride, draw};
  auto at = graphs_.find(key);
  if (at == graphs_.end())
    at = graphs_.try_emplace(key, stream(), [&] { queue_all(rows, draw, nullptr); }).first;
  at->second.launch(stream());
}

// Copies the step's inputs to the GPU, and lists its rows for the host. Steps of single rows that
// the GPU computes alone are filled up to a shape that later steps are likely to have.
StepShape CudaBatchExecutor::place(std::span<const SequenceStep> sequences, const RowOrder& order,
                                   bool all_logits) {
  StepShape shape;
  shape.singles = int(order.singles.size());
  if (order.chunks.empty() && is_gpu_alone())
    shape.singles = std::min(padded_rows(shape.singles), state_->ubatch());
  shape.context = padded_context(order.longest);
  shape.table = int(std::max((shape.context + limits().block_tokens - 1) / limits().block_tokens,
                             order.longest_table));
  inputs_.place(sequences, order, shape, all_logits, blocks_, windows(), stream());
  if (host_) host_->place(sequences, order, all_logits);
  return shape;
}

// Copies how ids are chosen on the GPU, of the single rows and of chunks that want one. Returns
// true if some are drawn at random.
bool CudaBatchExecutor::place_samplers(std::span<const SequenceStep> sequences,
                                       const RowOrder& order, int singles, bool all_logits) {
  std::vector<Sampler*> samplers(std::size_t(singles), nullptr);
  row_of_.assign(sequences.size(), -1);
  for (std::size_t i = 0; i < order.singles.size(); ++i) {
    samplers[i] = sequences[std::size_t(order.singles[i])].sampler;
    row_of_[std::size_t(order.singles[i])] = int(i);
  }
  for (std::size_t i = 0; i < order.chunks.size(); ++i) {
    if (!inputs_.chunks()[i].wants_logits) continue;
    row_of_[std::size_t(order.chunks[i])] = int(samplers.size());
    samplers.push_back(sequences[std::size_t(order.chunks[i])].sampler);
  }
  return !all_logits && results_->place_samplers(samplers, stream());
}

SequenceRows CudaBatchExecutor::rows_of(const RowOrder& order, const StepShape& shape) const {
  SequenceRows rows;
  rows.singles = shape.singles;
  rows.rows = shape.singles + int(order.tokens) - int(order.singles.size());
  rows.ids = inputs_.ids();
  rows.at = inputs_.rows();
  rows.states = inputs_.states();
  rows.tables = inputs_.tables();
  rows.window_tables = inputs_.window_tables();
  rows.table_stride = shape.table;
  rows.splits = step_splits(shape.singles, state_->attention_groups(), int(shape.context));
  rows.partials = partials_.partials;
  RIGCAST_ASSERT(rows.splits.count <= kPartialSplits);
  rows.partial_rows = kPartialSplits / rows.splits.count;
  rows.chunks = inputs_.chunks();
  if (!host_) return rows;
  rows.ids_on_host = host_->rows().ids;
  rows.owners = host_->rows().sequences;
  return rows;
}

void CudaBatchExecutor::queue_rows(std::span<const SequenceStep> sequences, const RowOrder& order,
                                   bool all_logits) {
  const StepShape shape = place(sequences, order, all_logits);
  const bool draw = results_ && place_samplers(sequences, order, shape.singles, all_logits);
  const SequenceRows rows = rows_of(order, shape);
  if (recorder_)
    queue_traced(sequences.front().cached,
                 [&](StageListener* stages) { queue_all(rows, draw, stages); });
  else if (order.chunks.empty() && takes_graphs())
    launch(rows, draw);
  else
    queue_all(rows, draw, nullptr);
}

void CudaBatchExecutor::compute(std::span<const SequenceStep> sequences, const RowOrder& order,
                                bool all_logits) {
  state_->stop.throw_if_requested();
  if (state_->host) state_->host->side.layers().record_into(recorder_);
  has_cold_blocks_ = blocks_.place(sequences);
  const bool keeps_states = state_->spec().recurrent.has_value();
  if (keeps_states) lost_states_.begin(sequences);
  try {
    if (is_one_token(order))
      queue_one(sequences.front(), !all_logits);
    else
      queue_rows(sequences, order, all_logits);
    stream().wait();
  } catch (...) {
    static_cast<void>(cudaDeviceSynchronize());  // what was queued of the step
    token_inputs_.forget();
    token_inputs_.forget_draw();
    throw;
  }
  if (keeps_states) lost_states_.end(sequences);
  const auto wanted = std::ranges::count_if(order.chunks, [&](int i) {
    return all_logits || sequences[std::size_t(i)].sampler;
  });
  moved_ += moved_bytes(*state_, sequences, order.singles.size() + std::size_t(wanted));
}

std::span<const std::int32_t> CudaBatchExecutor::step(std::span<const SequenceStep> sequences) {
  const RowOrder order = order_of(sequences, limits());
  compute(sequences, order, false);
  ids_.assign(sequences.size(), BatchExecutor::kNoToken);
  if (!results_) {
    const double since = recorder_ ? recorder_->now() : 0;
    host_->sample(sequences, ids_);
    if (recorder_) recorder_->add(ActivityKind::kSample, -1, sequences.front().cached, since, 0);
    return ids_;
  }
  if (is_one_token(order)) {
    ids_.front() = take_one(sequences.front().sampler);
    return ids_;
  }
  std::vector<std::uint64_t> drawn;  // before, in case that a row cannot be read
  for (const SequenceStep& s : sequences) drawn.push_back(s.sampler ? s.sampler->drawn() : 0);
  try {
    for (std::size_t i = 0; i < sequences.size(); ++i)
      if (Sampler* const sampler = sequences[i].sampler)
        ids_[i] = results_->take(row_of_[i], *sampler, stream());
  } catch (...) {
    for (std::size_t i = 0; i < sequences.size(); ++i)
      if (sequences[i].sampler) sequences[i].sampler->rewind(drawn[i]);
    throw;
  }
  return ids_;
}

std::span<const float> CudaBatchExecutor::logits(std::span<const SequenceStep> sequences) {
  const RowOrder order = order_of(sequences, limits());
  compute(sequences, order, true);
  const auto width = std::size_t(state_->spec().vocabulary);
  logits_.resize(sequences.size() * width);
  if (!results_) {
    host_->read_logits(logits_);
    return logits_;
  }
  const auto read = [&](std::size_t sequence, const float* row) {
    RIGCAST_CUDA_CALL(cudaMemcpyAsync(logits_.data() + sequence * width, row, width * sizeof(float),
                                      cudaMemcpyDeviceToHost, stream().get()));
  };
  if (is_one_token(order)) read(0, state_->buffers.token.logits);
  for (std::size_t i = 0; !is_one_token(order) && i < sequences.size(); ++i)
    read(i, results_->logits() + row_of_[i] * std::int64_t(width));
  stream().wait();
  return logits_;
}

// Where the host computes or weights are copied, these take far longer than kernels to load.
void CudaBatchExecutor::warm_up() {
  BatchExecutor::warm_up();
  if (!is_gpu_alone()) return;
  warm_up_prompts(*this);
  warm_up_decode(*this);
}

// Queues the copies of the GPU's part of the blocks, while the host copies its own.
void CudaBatchExecutor::move_out(std::span<const BlockCopy> copies) {
  memory_.move_out(copies, stream());
  moved_.to_host += double(memory_.moved_out_of_gpu(copies) * memory_.block_bytes());
  if (host_) host_->move_out(copies);
}

void CudaBatchExecutor::move_in(std::span<const BlockCopy> copies) {
  memory_.move_in(copies, stream());
  moved_.to_gpu += double(memory_.moved_to_gpu(copies) * memory_.block_bytes());
  if (host_) host_->move_in(copies);
}

// Queues the copy of the GPU's layers behind the last step, which has ended, and before the next
// one's kernels and graphs, while the host copies its own.
void CudaBatchExecutor::copy_state(int from, int to) {
  const int states = limits().step_sequences + limits().checkpoints;
  RIGCAST_ASSERT(from >= 0 && from < states && to >= 0 && to < states && from != to);
  if (!state_->spec().recurrent) return;
  lost_states_.copy(from, to);
  state_->states.copy(from, to);
  if (state_->host) state_->host->side.layers().states().copy(from, to);
}

// The GPU's part of a block, and then the host's.
void CudaBatchExecutor::read_block(int block, std::span<std::byte> to) {
  RIGCAST_ASSERT(block >= 0 && block < limits().blocks && to.size() >= block_bytes());
  memory_.read(block, to.data(), stream());
  if (host_) host_->read(block, to.subspan(memory_.block_bytes()));
}

void CudaBatchExecutor::write_block(int block, std::span<const std::byte> from) {
  RIGCAST_ASSERT(block >= 0 && block < limits().blocks && from.size() >= block_bytes());
  RIGCAST_CUDA_CALL(cudaSetDevice(state_->device.vram.device()));
  memory_.write(block, from.data(), restores_);
  if (host_) host_->write(block, from.subspan(memory_.block_bytes()));
}

MovedBytes CudaBatchExecutor::take_bytes() {
  MovedBytes all = std::exchange(moved_, {});
  if (state_->host) all += state_->host->side.take_bytes();
  if (host_) all += host_->take_bytes();
  if (ring_) all += ring_->take_bytes();
  return all;
}

}  // namespace

std::unique_ptr<BatchExecutor> batch_executor_of(std::unique_ptr<State> state,
                                                 const BatchOptions& batch,
                                                 const BatchPlacement& placement) {
  return std::make_unique<CudaBatchExecutor>(std::move(state), batch, placement);
}

}  // namespace rigcast::engine::cuda
