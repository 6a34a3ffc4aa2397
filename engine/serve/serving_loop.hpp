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
#include <vector>

#include "core/base/error.hpp"
#include "core/runtime/scheduler_policy.hpp"
#include "engine/run/batch_executor.hpp"
#include "engine/serve/completions.hpp"
#include "engine/serve/kv_pool.hpp"
#include "engine/serve/scheduler.hpp"
#include "engine/serve/serving_observer.hpp"

namespace rigcast::engine {

struct ServingOptions {
  SchedulerPolicy policy{};
  TokenCount context = 0;  // the most tokens of a prompt and its answer; 0: what the pool holds
};

/// The rules that the engine has, with the blocks of an executor: what a policy leaves open.
SchedulerPolicy engine_policy(const BatchLimits& limits);

/// A step that fails ends one of its requests with kFailed, the one with the most tokens in it;
/// the others go on. Interrupted ends all with kCancelled, and the loop.
class ServingLoop final : public Completions {
 public:
  /// Begins to serve. Executor and observer (nullptr: none) must outlive the loop; nobody else
  /// uses the executor meanwhile. Errors: rules that the engine has not (Scheduler::check); a pool
  /// that is smaller than the context (kDoesNotFit).
  static Result<std::unique_ptr<ServingLoop>> start(BatchExecutor& executor,
                                                    const ServingOptions& options,
                                                    ServingObserver* observer = nullptr);
  ~ServingLoop() override;
  ServingLoop(const ServingLoop&) = delete;
  ServingLoop& operator=(const ServingLoop&) = delete;

  Result<CompletionId> submit(CompletionRequest request) override;
  void cancel(CompletionId id) override;
  CompletionsState state() const override;
  TokenCount context() const override { return context_; }

  /// Ends all requests with kCancelled, after the step that is being computed, and returns when the
  /// thread has ended. Further requests are refused. Whoever does not want to wait for a long step
  /// interrupts the executor before. Not to be called on the engine's thread.
  void stop();
  /// After stop(): what of the blocks' bookkeeping is wrong; empty: nothing, and no block is used.
  std::string leaks() const;

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
  void compute();
  void load(const StepPlan& plan);
  void step(const StepPlan& plan);
  void advance(const StepPlan& plan, std::span<const std::int32_t> next, Clock::time_point now);
  std::optional<FinishReason> take_token(Sequence& sequence, std::int32_t token,
                                         Clock::time_point now);
  void note(const StepPlan& plan, Clock::time_point now);
  std::string offer(Sequence& sequence);
  void end(Sequence& sequence, FinishReason reason, std::string error = {});
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
  KvPool pool_;
  Scheduler scheduler_;
  std::unordered_map<CompletionId, std::unique_ptr<Sequence>> sequences_;
  std::vector<SequenceStep> parts_;
  std::vector<std::optional<FinishReason>> finished_;  // of the parts of a step
  CompletionsState counts_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Of all threads.
  std::vector<Arrived> arrived_;
  std::vector<CompletionId> cancelled_;
  CompletionsState state_;
  CompletionId last_id_ = 0;
  bool stops_ = false;

  std::thread thread_;  // after all that it uses
};

}  // namespace rigcast::engine
