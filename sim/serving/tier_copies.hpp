#pragma once
// Copies between a server's KV cache and its tiers, as its rules have them: in closed form, or,
// where copies and steps slow each other, as flows. A disk is in no step's way.

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "core/runtime/scheduler_policy.hpp"
#include "sim/machine/copy_flows.hpp"
#include "sim/serving/cache/ram_tier.hpp"
#include "sim/serving/scheduler.hpp"
#include "sim/serving/watch/serving_watch.hpp"

namespace rigcast {

/// Times are those since the load's start; `now` never goes back.
class TierCopies {
 public:
  /// The tier must outlive it. `watch`: nullptr, or told of every copy.
  TierCopies(const RamTier& tier, RamLoad load, ServingWatch* watch);

  /// RamLoad::kBlocking: makes copies while all wait, and returns when they have ended.
  Seconds copy_and_wait(Seconds now, KvCache::Copies copies);
  /// The others: what comes back before its request can be scheduled, or with the step that begins
  /// now.
  void load(Seconds now, const std::vector<StepPlan::Load>& loads);
  /// What goes to RAM beside the steps.
  void store(Seconds now, Bytes bytes);

  /// How long a step takes that begins now.
  Seconds step(Seconds now, const sim::StepUse& use);
  /// True if a step that begins now may take longer than it would alone.
  [[nodiscard]] bool may_slow_step(Seconds now) const {
    return layers_ready_ > now || copies_of_step_ > 0 || (flows_ && !flows_->is_idle());
  }
  /// When something happens that is waited for where no step is computed: `arrival`, or a request's
  /// copies have ended. nullopt: nothing will.
  std::optional<Seconds> next_event(Seconds now, std::optional<Seconds> arrival);
  /// When the next request's copies end; nullopt: none is under way, or steps decide.
  [[nodiscard]] std::optional<Seconds> next_loaded() const;
  /// True if flows have ended that requests wait for.
  [[nodiscard]] bool has_loaded() const { return !loaded_.empty(); }
  /// Requests whose copies have ended by now.
  std::vector<RequestId> take_loaded(Seconds now);

  /// Lets all that is under way end: nothing may be called after it but the sums.
  void finish(Seconds now);
  struct Sum {
    Seconds busy;
    Bytes bytes;
  };
  [[nodiscard]] Sum sum(CopyDirection direction) const { return sums_[std::size_t(direction)]; }
  [[nodiscard]] Sum from_disk() const { return {disk_.busy(), disk_.bytes()}; }

 private:
  Seconds queue(CopyDirection direction, Seconds now, Bytes bytes);
  void note(CopyDirection direction, Seconds begin, Seconds end, Bytes bytes);
  void collect();
  void load_ahead(Seconds now, const StepPlan::Load& load);
  void ends(RequestId request, Seconds at);

  const RamTier& tier_;
  const RamLoad load_;
  ServingWatch* const watch_;
  std::array<CopyQueue, 2> queues_;      // in closed form, by direction
  std::optional<sim::CopyFlows> flows_;  // instead of it
  struct Load {
    RequestId request;
    Seconds ends;
  };
  CopyQueue disk_;
  std::map<RequestId, Seconds> disk_ends_;  // of those whose copies from RAM are flows
  std::deque<Load> loads_;  // in closed form, that requests wait for, in the order of their ends
  std::vector<RequestId> loaded_;  // of flows, that have ended
  Seconds layers_ready_;           // in closed form, what the next step computes with
  Bytes of_step_;                  // of flows the same
  int copies_of_step_ = 0;
  std::array<Sum, 2> sums_{};
};

}  // namespace rigcast
