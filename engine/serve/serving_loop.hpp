#pragma once
// Completions on a thread of their own, which asks the scheduler for steps and the executor to
// compute them.

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/runtime/scheduler_policy.hpp"
#include "engine/run/batch_executor.hpp"
#include "engine/serve/block_store.hpp"
#include "engine/serve/completions.hpp"
#include "engine/serve/disk_tier.hpp"
#include "engine/serve/kv_pool.hpp"
#include "engine/serve/restore_rates.hpp"
#include "engine/serve/scheduler.hpp"
#include "engine/serve/serving_observer.hpp"
#include "engine/serve/state_slots.hpp"

namespace rigcast::engine {

struct ServingOptions {
  SchedulerPolicy policy{};
  TokenCount context = 0;  // the most tokens of a prompt and its answer; 0: what the pool holds
  /// Where blocks are kept behind RAM, which must outlive the loop; nullptr: nowhere. Failures
  /// there end no request: what was kept is computed anew from then on.
  BlockStore* disk = nullptr;
  RestoreRates rates{};  // of measure_rates(): nothing is known before the first copies otherwise
};

/// The rules that the engine has, with the blocks of an executor: what a policy leaves open.
SchedulerPolicy engine_policy(const BatchLimits& limits);

/// A step that fails ends one of its requests with kFailed, the one with the most tokens in it;
/// the others go on, and begin anew if the step may have changed states of recurrent layers.
/// Interrupted ends all with kCancelled, and the loop.
class ServingLoop final : public Completions {
 public:
  /// Begins to serve. Executor and observer (nullptr: none) must outlive the loop; nobody else
  /// uses the executor meanwhile. Errors: rules that the engine has not (Scheduler::check); a
  /// context that is longer than the executor's sequences, or larger than the pool (kDoesNotFit).
  static Result<std::unique_ptr<ServingLoop>> start(BatchExecutor& executor,
                                                    const ServingOptions& options,
                                                    ServingObserver* observer = nullptr);
  ~ServingLoop() override;
  ServingLoop(const ServingLoop&) = delete;
  ServingLoop& operator=(const ServingLoop&) = delete;

  Result<CompletionId> submit(CompletionRequest request) override;
  void cancel(CompletionId id) override { end_early(id, FinishReason::kCancelled); }
  void finish(CompletionId id) override { end_early(id, FinishReason::kStop); }
  CompletionsState state() const override;
  TokenCount context() const override { return context_; }

  /// Ends all requests with kCancelled, after the step that is being computed, and returns when the
  /// thread has ended. Further requests are refused. Whoever does not want to wait for a long step
  /// interrupts the executor before. Not to be called on the engine's thread.
  void stop();
  /// After stop(): what of the blocks' bookkeeping is wrong; empty: nothing, and no block is used.
  std::string leaks() const;
  /// After stop(): rates as they were measured to the end.
  const RestoreRates& rates() const { return rates_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Arrived {
    std::unique_ptr<Sequence> sequence;
    Clock::time_point at;
  };

  ServingLoop(BatchExecutor& executor, const ServingOptions& options, TokenCount context,
              ServingObserver* observer);

  void serve();
  bool receive();
  void receive_from_disk();
  void compute();
  void load(const StepPlan& plan);
  void load(const Sequence& sequence, const KvPool::Restored& copies);
  void step(const StepPlan& plan);
  void advance(const StepPlan& plan, std::span<const std::int32_t> next, Clock::time_point now);
  std::optional<FinishReason> take_token(Sequence& sequence, std::int32_t token,
                                         Clock::time_point now);
  void note(const StepPlan& plan, Clock::time_point now);
  std::string offer(Sequence& sequence);
  void restore_state(Sequence& sequence);
  void keep_state(Sequence& sequence);
  void restart_others(const StepPlan& plan, const Sequence& failed);
  std::string copy_to_host(std::span<const BlockCopy> copies);
  void copy_to_disk(std::span<const BlockCopy> copies);
  void end(Sequence& sequence, FinishReason reason, std::string error = {});
  void end_early(CompletionId id, FinishReason reason);
  void cancel_all();
  void publish();

  BatchExecutor& executor_;
  const BatchLimits limits_;
  const SchedulerPolicy policy_;
  const TokenCount context_;
  const std::int64_t vocabulary_;
  ServingObserver none_;
  ServingObserver& observer_;

  // Of the engine's thread.
  const Bytes block_bytes_;
  RestoreRates rates_;
  KvPool pool_;
  Scheduler scheduler_;
  std::unordered_map<CompletionId, std::unique_ptr<Sequence>> sequences_;
  std::unordered_set<CompletionId> restoring_;  // whose blocks come back from disk
  bool awaits_disk_ = false;                    // there is nothing else to do
  StateSlots states_;
  std::vector<SequenceStep> parts_;
  std::vector<std::optional<FinishReason>> finished_;  // of the parts of a step
  CompletionsState counts_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Of all threads.
  std::vector<Arrived> arrived_;
  std::vector<std::pair<CompletionId, FinishReason>> ended_early_;
  CompletionsState state_;
  CompletionId last_id_ = 0;
  bool stops_ = false, disk_has_results_ = false;

  std::unique_ptr<DiskTier> disk_;  // nullptr: there is none
  std::thread thread_;              // after all that it uses
};

}  // namespace rigcast::engine
