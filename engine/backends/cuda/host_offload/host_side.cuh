#pragma once
// The host's parts of a model whose others a GPU computes: it answers what the GPU asks within a
// token, and takes its turns at a prompt's batches.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/backends/cpu/cpu_layers.hpp"
#include "engine/cuda/mailbox.cuh"
#include "engine/placement/host_parts.hpp"
#include "engine/threads/team.hpp"

namespace rigcast::engine::cuda {

/// Called by every thread before each turn of the host's: what it throws ends the step.
using BeforeTurn = std::function<void(int thread)>;

class HostSide {
 public:
  /// Keeps the caches of its layers alone. Throws MachineError if threads cannot be made.
  HostSide(std::shared_ptr<const Model> model, const HostParts& parts, CpuOptions options,
           BeforeTurn before_turn);

  /// What the host attends to of blocks that have left the GPU: the first `tokens` tokens.
  struct ColdShare {
    const KvCache* cache = nullptr;
    TokenCount tokens = 0;
  };
  void attend_to(const ColdShare& share) { cold_ = share; }
  /// Answers every call of one token, whose position is `cached`. Logits are in logits() where the
  /// head is here. The GPU's work is on `stream` already. After an exception the mailbox is to be
  /// released.
  void token(Mailbox& mailbox, const Stream& stream, TokenCount cached, std::int32_t id);

  /// Of the last token: from a question about a layer's cold blocks to the one about the next
  /// layer's, on average. nullopt: there were no two with nothing else in between.
  std::optional<Seconds> cold_period() const;

  // The same call by call, where the GPU's work is queued no further than the call's answer.
  void begin_token(TokenCount cached);
  void answer_next(Mailbox& mailbox, const Stream& stream, TokenCount cached, std::int32_t id);

  /// One token without the GPU: all layers and the head are here. Its logits are in logits().
  void decode(TokenCount cached, std::int32_t id);

  // Of a batch after `cached` tokens, rows one after the other; a call for each.
  void embed(TokenCount cached, std::span<const std::int32_t> ids, std::span<float> hidden);
  void through(int first, int end, TokenCount cached, std::span<float> hidden);
  void mixture(int layer, TokenCount cached, std::span<float> hidden);
  void attend(int layer, TokenCount cached, std::span<const float> projected,
              std::span<float> mixed);
  void head(TokenCount cached, std::span<const float> hidden);

  const std::vector<float>& logits() { return layers_.logits(); }
  CpuLayers& layers() { return layers_; }
  int threads() const { return team_.size(); }
  const HostParts& parts() const { return parts_; }
  /// Of the host's memory, and what went over the link.
  MovedBytes take_bytes();
  /// What a batch of random tokens takes in a layer of the host's, or in its experts alone. Nothing
  /// is cached yet, and nothing is afterwards.
  Seconds time_layer(int layer, TokenCount tokens, bool experts_alone);
  /// Random keys and values behind the first `cached` tokens.
  void fill(TokenCount cached, TokenCount tokens);

 private:
  std::int64_t rows(std::size_t values, std::int64_t width) const {
    return std::int64_t(values) / width;
  }
  void fetch_ahead(Worker& worker, const HostCall& call, TokenCount cached);
  bool happens(const HostCall& call) const {
    return call.kind != HostCall::Kind::kCold || cold_.tokens > 0;
  }
  /// The team runs `job`, once each has been told.
  template <class Job>
  void run(const Job& job);
  void await_and_answer(Worker& worker, const HostCall& call, Mailbox& mailbox,
                        const Stream& stream, TokenCount cached, std::int32_t id);
  void answer(Worker& worker, const HostCall& call, Mailbox& mailbox, std::int32_t id);
  void answer_cold(Worker& worker, int layer, Mailbox& mailbox);
  void forget_periods();
  void count_period(const HostCall& call);
  /// What a call takes from the GPU and gives to it.
  void count_message(const HostCall& call);
  void count_rows(std::size_t taken, std::size_t given);
  void copy_rows(Worker& worker, std::span<const float> from, std::span<float> to) const;
  /// Runs `stage` on rows that are put into the layers' hidden state before and taken from it
  /// after.
  template <class Stage>
  void on_rows(TokenCount cached, std::span<float> hidden, const Stage& stage);

  HostParts parts_;
  BeforeTurn before_turn_;
  std::vector<HostCall> calls_;
  std::size_t next_call_ = 0;  // of answer_next()
  Team team_;
  CpuLayers layers_;
  ColdShare cold_;
  const float* message_ = nullptr;
  // Of the first thread, in one token.
  std::optional<std::chrono::steady_clock::time_point> asked_cold_;
  Seconds in_periods_;
  int periods_ = 0;
  MovedBytes sent_;
};

}  // namespace rigcast::engine::cuda
