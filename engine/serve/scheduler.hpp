#pragma once
// Which sequences' tokens the next step computes.

#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include "core/base/error.hpp"
#include "core/runtime/scheduler_policy.hpp"
#include "engine/serve/kv_pool.hpp"
#include "engine/serve/sequence.hpp"

namespace rigcast::engine {

/// What was decided before a step.
struct StepPlan {
  struct Part {
    Sequence* sequence;
    TokenCount tokens;
  };
  /// Blocks of a sequence come back from the host's pool and from disk. It is scheduled in the step
  /// after this one, or, if some are on disk, after end_disk_load().
  struct Load {
    Sequence* sequence;
    KvPool::Restored copies;
  };
  struct Preemption {
    Sequence* sequence;
    TokenCount lost;  // tokens that were in its blocks
  };
  std::vector<Part> parts;
  std::vector<Sequence*> admitted;
  std::vector<Load> loads;
  std::vector<Preemption> preempted;
};

class Scheduler {
 public:
  /// Why the engine has no such rules; nullopt: it has.
  static std::optional<Error> check(const SchedulerPolicy& policy);

  /// Pool and rates must outlive it. Steps have no more tokens and sequences than both allow.
  /// `block_bytes`: of a block in the other tiers.
  Scheduler(const SchedulerPolicy& policy, const BatchLimits& limits, KvPool& pool,
            const RestoreRates& rates, Bytes block_bytes);

  [[nodiscard]] std::size_t running() const { return running_.size(); }
  /// Those that do not run, those whose blocks come back from the host, too.
  [[nodiscard]] std::size_t waiting() const {
    return waiting_.size() + loading_.size() + loaded_.size();
  }
  /// True if no further sequence can run, whatever room there is.
  [[nodiscard]] bool is_full() const { return running_.size() >= sequences_; }
  /// True if all that wait do so for blocks from the host's pool or from disk.
  [[nodiscard]] bool only_loads() const { return waiting_.empty() && waiting() > 0; }
  /// True if the first of those that wait found no room before the last step.
  [[nodiscard]] bool lacks_cache() const { return lacks_cache_; }

  void arrive(Sequence& sequence) { waiting_.push_back(&sequence); }
  /// Blocks of the sequence are back from disk. Not `restored`: they are not, and it waits again,
  /// as the first one.
  void end_disk_load(Sequence& sequence, bool restored);
  /// The next step, valid until the next call; parts may be empty although something was begun.
  const StepPlan& plan();
  /// What was computed of a sequence that runs is lost: it begins anew, as the first that waits.
  void restart(Sequence& sequence);
  /// Takes a sequence out of all that waits and runs, and releases its blocks: it has ended, was
  /// cancelled or failed.
  void remove(Sequence& sequence);

 private:
  struct Loading {
    Sequence* sequence;
    TokenCount tokens;  // that were found, in the pool and elsewhere
    bool awaits_disk;
  };
  KvPool::Found find(Sequence& sequence) const;

  bool continue_running(TokenCount& left);
  void admit(TokenCount& left);
  void admit_loaded(TokenCount& left);
  void preempt_one();
  bool make_room(Sequence& sequence, TokenCount tokens);
  [[nodiscard]] TokenCount next_tokens(const Sequence& sequence, TokenCount computed,
                                       TokenCount left) const;
  [[nodiscard]] int reserved_answers() const;
  [[nodiscard]] bool has_room_for(const Sequence& sequence, const KvPool::Found& found,
                                  TokenCount first) const;
  void run(Sequence& sequence, TokenCount tokens, TokenCount& left);
  void add(Sequence& sequence, TokenCount tokens, TokenCount& left);

  const SchedulerPolicy policy_;
  const TokenCount step_tokens_;
  const std::size_t sequences_;
  KvPool& pool_;
  const RestoreRates& rates_;
  const Bytes block_bytes_;
  std::deque<Sequence*> waiting_;
  std::deque<Loading> loading_, loaded_;
  std::vector<Sequence*> running_;  // in order of admission
  StepPlan plan_;
  bool lacks_cache_ = false;
};

}  // namespace rigcast::engine
