#include "perfmodel/overlap.hpp"

#include <algorithm>
#include <deque>
#include <vector>

#include "perfmodel/pressure/paging_time.hpp"
#include "perfmodel/resource_use.hpp"

namespace rigcast {
namespace {

// Walks over the operations in order, with a clock for each copy engine.
class Schedule {
 public:
  explicit Schedule(const StepContext& s) : s_(s), engines_(s.rig.gpus.size()) {}

  void append(const Step& step) {
    const Seconds begin = now_;
    now_ += step.host_work + page_in_time(s_, step.page_in);
    for (const StepOp& op : step.ops) append(op);
    if (step.logits.value > 0) now_ += copy_out_time(s_, step.logits_from, step.logits);
    now_ = std::max(now_ + step.sample, begin + step.beside);
  }

  Seconds now() const { return now_; }

 private:
  struct CopyEngine {
    Seconds in_free;                // when the last copy to the GPU has ended
    std::deque<Seconds> consumers;  // the times at which operations free the buffers, oldest first
  };

  void append(const StepOp& op) {
    const Seconds ready = now_ + handoff_time(s_, op);
    const Seconds begin = op.fetch ? std::max(ready, fetch(op, ready)) : ready;
    Seconds done = begin + time_alone(s_, op.cost, op.device);
    if (op.fetch) engines_[std::size_t(op.device)].consumers.push_back(done);
    if (op.host_part) done = std::max(done, ready + time_alone(s_, *op.host_part, kHost));
    now_ = done;
  }

  // The time at which the operation's copy has ended.
  Seconds fetch(const StepOp& op, Seconds ready) {
    CopyEngine& engine = engines_[std::size_t(op.device)];
    Seconds begin = engine.in_free;
    if (op.fetch->early) {
      const auto buffers = std::size_t(s_.runtime.decode.prefetch_buffers());
      while (engine.consumers.size() > buffers) engine.consumers.pop_front();
      if (engine.consumers.size() == buffers) begin = std::max(begin, engine.consumers.front());
    } else {
      begin = std::max(begin, ready);
    }
    engine.in_free = begin + fetch_time(s_, op);
    return engine.in_free;
  }

  const StepContext s_;
  std::vector<CopyEngine> engines_;
  Seconds now_;
};

}  // namespace

int prefetch_distance(const RuntimeProfile& runtime, const Step& step) {
  const auto copies = int(std::ranges::count_if(step.ops, &StepOp::prefetches));
  return copies > 0 ? (runtime.decode.prefetch_buffers() + copies - 1) / copies : 0;
}

Seconds first_period(const StepContext& s, const Step& step) {
  Schedule schedule(s);
  schedule.append(step);
  return std::max(schedule.now(), lower_bound(s, step));
}

Seconds steady_period(const StepContext& s, const Step& step) {
  Schedule schedule(s);
  // The copies of the steps before fill the buffers.
  const int distance = prefetch_distance(s.runtime, step);
  for (int i = distance > 0 ? distance + 1 : 0; i > 0; --i) schedule.append(step);
  const Seconds before = schedule.now();
  schedule.append(step);
  return std::max(schedule.now() - before, lower_bound(s, step));
}

}  // namespace rigcast
