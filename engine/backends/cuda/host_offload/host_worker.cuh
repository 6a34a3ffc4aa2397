#pragma once
// A worker for the host's parts of a model that a GPU computes otherwise: it answers the GPU's
// messages within a token, and computes its layers of a prompt's batch.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/backends/cpu/cpu_layers.hpp"
#include "engine/cuda/mailbox.cuh"
#include "engine/placement/host_placement.hpp"
#include "engine/threads/thread_team.hpp"

namespace rigcast::engine::cuda {

/// Called by every thread before each host operation; an exception ends the step.
using BeforeHostOp = std::function<void(int thread)>;

/// Whose tokens the rows of a batch are.
struct RowOwners {
  /// Consecutive tokens of one sequence, after `cached_` others.
  RowOwners(TokenCount cached_ = 0) : cached(cached_) {}
  /// Tokens of several sequences, whose block tables name blocks of the host's cache. They stay
  /// where they are while the rows are computed. No bit of a row depends on others' contents.
  RowOwners(std::span<const StepSequence> sequences_) : sequences(sequences_) {}

  TokenCount cached = 0;
  std::span<const StepSequence> sequences{};
};

class HostWorker {
 public:
  /// Makes the worker, with caches for its own layers. Throws MachineError if threads cannot be
  /// made.
  HostWorker(std::shared_ptr<const Model> model, const HostPlacement& parts, CpuOptions options,
             BeforeHostOp before_host_op);

  /// The evicted KV blocks to which the host attends: the first `tokens` tokens.
  struct ColdKvRange {
    const KvCache* cache = nullptr;
    TokenCount tokens = 0;
  };
  void attend_to(const ColdKvRange& share) { cold_ = share; }
  /// Runs every host operation of one token at position `cached`, whose GPU work is queued on
  /// `stream`. Logits are in logits() if the head is here. After an exception the caller must
  /// release the mailbox.
  void token(Mailbox& mailbox, const Stream& stream, TokenCount cached, std::int32_t id);

  /// The average time, in the last token, from a layer's message about cold blocks to the next
  /// layer's. nullopt: no two such messages followed each other directly.
  std::optional<Seconds> cold_period() const;

  // Runs one host operation at a time, where GPU work is queued only as far as the operation's
  // answer.
  void begin_token(TokenCount cached);
  void run_next_op(Mailbox& mailbox, const Stream& stream, TokenCount cached, std::int32_t id);

  /// Computes one token without the GPU: all layers and the head are here. Its logits are in
  /// logits().
  void decode(TokenCount cached, std::int32_t id);

  // Parts of a batch, with contiguous rows; each part is one call.
  void embed(const RowOwners& of, std::span<const std::int32_t> ids, std::span<float> hidden);
  void through(int first, int end, const RowOwners& of, std::span<float> hidden);
  void mixture(int layer, const RowOwners& of, std::span<float> hidden);
  void attend(int layer, const RowOwners& of, std::span<const float> projected,
              std::span<float> attn_out);
  /// Computes the logits of `rows` of a batch of `tokens` rows, whose hidden states alone are in
  /// `hidden`, in their order.
  void head(const RowOwners& of, std::int64_t tokens, std::span<const std::int64_t> rows,
            std::span<const float> hidden);

  const std::vector<float>& logits() { return layers_.logits(); }
  CpuLayers& layers() { return layers_; }
  ThreadTeam& team() { return team_; }
  int threads() const { return team_.size(); }
  const HostPlacement& parts() const { return parts_; }
  /// Bytes moved in the host's memory and over the link since the last call.
  MovedBytes take_bytes();
  /// Measures a batch of random tokens in one of the host's layers, or in its experts alone. The
  /// cache must be empty, and is empty afterwards.
  Seconds time_layer(int layer, TokenCount tokens, bool experts_alone);
  /// Stores random keys and values after the first `cached` tokens.
  void fill(TokenCount cached, TokenCount tokens);

 private:
  std::int64_t rows(std::size_t values, std::int64_t width) const {
    return std::int64_t(values) / width;
  }
  void prefetch_kv(Worker& worker, const HostOp& call, TokenCount cached);
  /// The layer whose cache a layer attends to.
  int cached_layer(int layer) const;
  bool happens(const HostOp& call) const {
    return call.kind != HostOp::Kind::kCold || cold_.tokens > 0;
  }
  /// Begins a batch; every member of the team calls it.
  void begin(Worker& worker, const RowOwners& of, std::int64_t tokens);
  /// Runs `job` on the team; every thread calls before_host_op_ first.
  template <class Job>
  void run(const Job& job);
  void wait_and_run_op(Worker& worker, const HostOp& call, Mailbox& mailbox, const Stream& stream,
                       TokenCount cached, std::int32_t id);
  void answer(Worker& worker, const HostOp& call, Mailbox& mailbox, std::int32_t id);
  void attend_cold(Worker& worker, int layer, Mailbox& mailbox);
  void forget_periods();
  void count_period(const HostOp& call);
  /// Counts the bytes that an operation receives from the GPU and sends to it.
  void count_op_bytes(const HostOp& call);
  void count_rows(std::size_t taken, std::size_t given);
  // Of `width` floats each. Every member calls it; it ends with a barrier.
  void copy_rows(Worker& worker, std::span<const float> from, std::span<float> to,
                 std::int64_t width) const;
  /// Runs `stage` on rows, which are copied into the layers' hidden state before and out of it
  /// after.
  template <class Stage>
  void on_rows(const RowOwners& of, std::span<float> hidden, const Stage& stage);

  HostPlacement parts_;
  BeforeHostOp before_host_op_;
  std::vector<HostOp> calls_;
  std::size_t next_op_ = 0;  // the next operation of run_next_op()
  ThreadTeam team_;
  CpuLayers layers_;
  ColdKvRange cold_;
  const float* message_ = nullptr;
  // Timings of one token, by the first thread.
  std::optional<std::chrono::steady_clock::time_point> cold_sent_at_;
  Seconds in_periods_;
  int periods_ = 0;
  MovedBytes sent_;
};

}  // namespace rigcast::engine::cuda
