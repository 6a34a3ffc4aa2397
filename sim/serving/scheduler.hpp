#pragma once
// Which requests' tokens the next step computes, by a server's rules.

#include <deque>
#include <vector>

#include "core/runtime/scheduler_policy.hpp"
#include "sim/serving/cache/kv_cache.hpp"
#include "sim/serving/cache/request_log.hpp"

namespace rigcast {

/// What a scheduler decided before a step.
struct StepPlan {
  struct Part {
    RequestId request;
    TokenCount tokens;
  };
  struct Admission {
    RequestId request;
    KvCache::Found found;  // tokens that the cache held
  };
  /// What comes back from RAM and from disk: before the request can be scheduled, or in this step.
  struct Load {
    RequestId request;
    TokenCount tokens, of_disk = 0;
  };
  struct Preemption {
    RequestId request;
    TokenCount lost;  // tokens that were in the cache
  };
  std::vector<Part> parts;
  std::vector<Admission> admitted;
  std::vector<Preemption> preempted;
  std::vector<Load> loads;
};

class Scheduler {
 public:
  /// All must outlive it.
  Scheduler(const SchedulerPolicy& policy, KvCache& cache, RequestLog& log)
      : policy_(policy), cache_(cache), log_(log), estimate_(policy.estimate_first) {}

  /// Requests that do not run: those whose copy from RAM is under way, too.
  [[nodiscard]] std::size_t waiting() const {
    return waiting_.size() + loading_.size() + loaded_.size();
  }
  /// True if all that wait do so for a copy from RAM.
  [[nodiscard]] bool only_loads() const { return waiting_.empty() && !loading_.empty(); }
  /// True if a request found no room that no other one gives up: the server answers all with an
  /// error.
  [[nodiscard]] bool has_overflowed() const { return has_overflowed_; }
  [[nodiscard]] const std::vector<RequestId>& running() const { return running_; }
  /// True if the first of those that wait found no room in the cache before the last step.
  [[nodiscard]] bool lacks_cache() const { return lacks_cache_; }
  /// True if no further request can run, whatever room the cache has.
  [[nodiscard]] bool is_full() const {
    return running_.size() >= policy_.sequences ||
           (policy_.order == StepOrder::kWholeBatches && !running_.empty());
  }

  void arrive(RequestId id) { waiting_.push_back(id); }
  /// The copy of a request's keys and values from RAM has ended.
  void end_load(RequestId id);
  /// The next step, valid until the next call. No parts: nothing waits or runs.
  const StepPlan& plan();
  /// Takes those that have ended out of what runs.
  void remove_ended();
  /// A request that waits has ended: the last token was under way when it was preempted.
  void withdraw(RequestId id);

  /// True if a request that arrives may be admitted with the next step.
  [[nodiscard]] bool admits_arrivals() const;
  /// Steps with a token for all that run, up to `most`, between which nothing else is decided. At
  /// least 1.
  [[nodiscard]] TokenCount steps_without_decisions(TokenCount most) const;
  /// So many steps without a prompt have been taken.
  void decoded(TokenCount steps);
  /// Nothing waited or ran for a while.
  void idled();

 private:
  bool continue_running(TokenCount& left);
  void continue_decodes(TokenCount& left);
  void continue_prompts(TokenCount& left);
  void admit(TokenCount& left);
  void admit_loaded(TokenCount& left);
  void run(RequestId id, TokenCount tokens, TokenCount& left);
  bool is_prompt(RequestId id) const { return log_.state(id).generated == 0; }
  bool has_room_for(RequestId id, TokenCount hit, TokenCount first) const;
  std::size_t reserved_answers() const;
  std::size_t estimated_answers() const;
  bool make_room(RequestId id, TokenCount tokens);
  void preempt_one();
  void add(RequestId id, TokenCount tokens, TokenCount& left);

  const SchedulerPolicy& policy_;
  KvCache& cache_;
  RequestLog& log_;
  std::deque<RequestId> waiting_;
  struct Loading {
    RequestId request;
    KvCache::Found found;
  };
  std::deque<Loading> loading_, loaded_;
  std::vector<RequestId> running_;  // in order of admission, or of slots
  StepPlan plan_;
  bool lacks_cache_ = false, has_overflowed_ = false;
  double estimate_;  // share of answers for which room is left: KvReserve::kEstimate
};

}  // namespace rigcast
