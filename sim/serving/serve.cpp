#include "sim/serving/serve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "sim/serving/cache/make_cache.hpp"
#include "sim/serving/scheduler.hpp"
#include "sim/serving/tier_copies.hpp"

namespace rigcast {
namespace {

// What is wrong with the last request; empty: nothing.
std::string fault_of(const RequestLog& log, const KvCache& cache, const SchedulerPolicy& policy) {
  const auto id = RequestId(log.size() - 1);
  const ServedRequest& r = log[id];
  if (r.prompt < 1 || r.output < 1) return "has a prompt or an answer without tokens";
  if (!std::isfinite(r.arrival.value) || (id > 0 && r.arrival < log[id - 1].arrival))
    return "arrives before the one before it";
  if (r.shared < 0 || (r.continues && *r.continues >= id)) return "continues no earlier one";
  const TokenCount room = cache.longest_sequence();
  if (r.prompt > room || r.output - 1 > room - r.prompt)
    return fmt::format("has {} tokens of prompt and {} of answer, more than the {} of the cache",
                       r.prompt, r.output, room);
  // Whoever may have to give up its blocks computes its answer anew, too.
  const bool is_kept = policy.reserve == KvReserve::kAnswers;
  const TokenCount at_once = is_kept ? r.prompt : r.prompt + r.output - 1;
  if (!policy.chunked && at_once > policy.step_tokens)
    return fmt::format(
        "has {} tokens to compute at once, more than the {} of a step, and prompts are not cut",
        at_once, policy.step_tokens);
  return {};
}

class Server {
 public:
  Server(Arrivals& arrivals, const SchedulerPolicy& policy, const CacheRoom& room,
         const StepTime& time, const RamTier& ram, ServingWatch* watch)
      : arrivals_(arrivals),
        time_(time),
        policy_(policy),
        cache_(make_kv_cache(policy, room, ram, log_)),
        scheduler_(policy, *cache_, log_),
        has_ram_(ram.capacity.value > 0),
        copies_(ram, policy.ram_load, watch),
        watch_(watch) {}

  Result<ServingRun> run() {
    for (receive(); !fault_; receive()) {
      const StepPlan& plan = scheduler_.plan();
      note(plan);
      copy(plan);
      if (scheduler_.has_overflowed()) {
        fault_ = overflow();
      } else if (!plan.parts.empty()) {
        compute(plan);
      } else if (const auto next = copies_.next_event(now_, arrivals_.next())) {
        pass(*next - now_);  // idle until then
        if (scheduler_.waiting() == 0) scheduler_.idled();
      } else {
        break;
      }
    }
    if (fault_) return *std::move(fault_);
    run_.end = now_;
    run_.free_blocks_at_end = cache_->free_units();
    copies_.finish(now_);
    const TierCopies::Sum out = copies_.sum(CopyDirection::kToRam);
    const TierCopies::Sum in = copies_.sum(CopyDirection::kFromRam);
    run_.to_ram = out.bytes;
    run_.to_gpu = in.bytes;
    run_.to_ram_busy = out.busy;
    run_.to_gpu_busy = in.busy;
    run_.load = log_.requests();
    return std::move(run_);
  }

 private:
  // Takes what has arrived, also from RAM. It is admitted with the next step at the earliest.
  void receive() {
    for (const RequestId id : copies_.take_loaded(now_)) scheduler_.end_load(id);
    for (auto next = arrivals_.next(); next && !fault_ && !(*next > now_);
         next = arrivals_.next()) {
      log_.add(arrivals_.take());
      const auto id = RequestId(log_.size() - 1);
      if (const std::string fault = fault_of(log_, *cache_, policy_); !fault.empty())
        fault_ = bad_input(fmt::format("request {} of the load {}", id + 1, fault));
      // It has waited since it arrived, be it within a step; if nobody did before, it was the
      // first.
      const Seconds waited = now_ - log_[id].arrival;
      run_.waiting += waited.value;
      if (scheduler_.waiting() == 0) waits() += waited;
      if (policy_.max_waiting > 0 && scheduler_.waiting() >= policy_.max_waiting)
        ++run_.beyond_queue;
      run_.requests.emplace_back();
      scheduled_.push_back(false);
      token_at_.emplace_back();
      scheduler_.arrive(id);
      if (watch_) watch_->arrived(id, log_[id].arrival);
    }
  }

  // Time passes: what waits, runs and is in use is counted.
  void pass(Seconds time) {
    run_.waiting += double(scheduler_.waiting()) * time.value;
    run_.running += double(scheduler_.running().size()) * time.value;
    const std::size_t used = cache_->units() - cache_->free_units();
    run_.blocks += double(used) * time.value;
    run_.peak_blocks = std::max(run_.peak_blocks, used);
    run_.peak_running = std::max(run_.peak_running, scheduler_.running().size());
    if (scheduler_.waiting() > 0) waits() += time;
    now_ += time;
  }

  // The sum of the times in which somebody waits for the same as those that wait now.
  Seconds& waits() {
    if (scheduler_.only_loads()) return run_.copy_full;
    if (scheduler_.is_full()) return run_.sequences_full;
    return scheduler_.lacks_cache() ? run_.cache_full : run_.step_full;
  }

  void note(const StepPlan& plan) {
    if (watch_) tell(plan);
    for (const auto& [id, lost] : plan.preempted) {
      run_.lost_tokens += lost;
      ++run_.requests[id].preemptions;
    }
    for (const auto& [id, found] : plan.admitted) {
      run_.hit_tokens += found.here;
      run_.ram_hit_tokens += found.in_ram;
      if (scheduled_[id]) continue;
      scheduled_[id] = true;
      run_.requests[id].scheduled = now_;
      run_.requests[id].hit = found.here;
      run_.requests[id].ram_hit = found.in_ram;
    }
  }

  void tell(const StepPlan& plan) {
    for (const StepPlan::Preemption& p : plan.preempted) watch_->preempted(p.request, now_);
    const bool slots = policy_.layout == KvLayout::kSlots;
    for (const StepPlan::Admission& a : plan.admitted)
      watch_->scheduled(a.request, now_,
                        slots ? std::optional(cache_->place(a.request)) : std::nullopt);
    if (policy_.ram_load == RamLoad::kAhead)
      for (const StepPlan::Load& load : plan.loads) watch_->loads(load.request, now_);
    watch_->levels(now_, scheduler_.running().size(), scheduler_.waiting(),
                   cache_->units() - cache_->free_units());
  }

  // Copies that the plan asks for. Where they block, the step begins when they have ended. Blocks
  // that the step computes are copied when it has ended.
  void copy(const StepPlan& plan) {
    if (!has_ram_) return;
    if (policy_.ram_load != RamLoad::kBlocking) return copies_.load(now_, plan.loads);
    const Seconds ends = copies_.copy_and_wait(now_, cache_->take_copies());
    if (!(ends > now_)) return;
    run_.copy_full += ends - now_;
    pass(ends - now_);
  }

  Error overflow() const {
    return {
        ErrorKind::kDoesNotFit,
        fmt::format("after {:.1f} s {} requests need more than the {} cells that all slots share: "
                    "llama-server answers all of them with \"Context size has been exceeded\"",
                    now_.value, scheduler_.running().size(), cache_->longest_sequence()),
        "fewer --slots, or without scheduler.unified"};
  }

  StepWork work_of(const StepPlan& plan) const {
    StepWork w;
    for (const auto& [id, tokens] : plan.parts) {
      const RequestLog::State& s = log_.state(id);
      if (tokens == 1 && s.generated > 0) {
        ++w.decodes;
        w.decodes_cached += double(s.computed);
      } else {
        w.prompts.push_back({s.computed, tokens, s.computed + tokens == log_.known(id)});
      }
    }
    return w;
  }

  void compute(const StepPlan& plan) {
    const StepWork work = work_of(plan);
    if (work.prompts.empty()) return decode(plan, work);
    const Seconds took = copies_.step(now_, time_(work));
    run_.with_prompts += took;
    take_step(plan, took);
    scheduler_.remove_ended();
  }

  // One step of decodes, and those after it in which every sequence that runs gets a token and
  // nothing else happens: none ends before the last, none arrives before the last begins, all find
  // room.
  void decode(const StepPlan& plan, const StepWork& work) {
    const sim::StepUse first = time_(work);
    sim::StepUse more;  // of each step than of the one before it
    TokenCount steps = steps_ahead(plan);
    if (steps > 1) {
      StepWork last = work;
      last.decodes_cached += double(work.decodes) * double(steps - 1);
      more = (time_(last) - first) * (1 / double(steps - 1));
      const auto until = [&](Seconds time) {
        steps = std::min(steps, steps_until(time - now_, first.time.value, more.time.value));
      };
      if (const auto next = arrivals_.next(); next && scheduler_.admits_arrivals()) until(*next);
      if (const auto next = copies_.next_loaded()) until(*next);
    }
    TokenCount taken = 0;
    bool is_late = false;  // steps may have taken longer than they would alone
    do {
      if (taken > 0)
        for (const StepPlan::Part& part : plan.parts)
          cache_->grow(part.request, log_.state(part.request).computed + 1);
      is_late = is_late || copies_.may_slow_step(now_);
      take_step(plan, copies_.step(now_, first + more * double(taken)));
    } while (++taken < steps && !(is_late && has_arrived()));
    scheduler_.decoded(taken);
    scheduler_.remove_ended();
  }

  // True if somebody came, or came back from RAM, who may be admitted now.
  bool has_arrived() const {
    if (copies_.has_loaded()) return true;
    const auto next = arrivals_.next();
    return next && !(*next > now_) && scheduler_.admits_arrivals();
  }

  TokenCount steps_ahead(const StepPlan& plan) const {
    TokenCount steps = std::numeric_limits<TokenCount>::max();
    for (const StepPlan::Part& part : plan.parts)
      steps = std::min(steps, log_[part.request].output - log_.state(part.request).generated);
    return scheduler_.steps_without_decisions(steps);
  }

  // Steps of `first` + k `slope` seconds after which a time is reached.
  static TokenCount steps_until(Seconds until, double first, double slope) {
    const double t = until.value;
    if (t <= 0) return 1;
    const double a = slope / 2, b = first - slope / 2;  // a k^2 + b k seconds of k steps
    const double k = a <= 0 ? t / b : (std::sqrt(b * b + 4 * a * t) - b) / (2 * a);
    return std::max<TokenCount>(1, TokenCount(std::ceil(k)));
  }

  void take_step(const StepPlan& plan, Seconds took) {
    const Seconds before = now_;
    pass(took);
    ++run_.steps;
    run_.busy += took;
    std::int64_t next_tokens = 0;  // of answers whose last token was there when the step began
    for (const StepPlan::Part& part : plan.parts) {
      const Seconds last = token_at_[part.request];
      if (watch_)
        watch_->computed({part.request, before, now_, part.tokens,
                          part.tokens == 1 && log_.state(part.request).generated > 0});
      if (!advance(part.request, part.tokens) || log_.state(part.request).generated < 2) continue;
      if (last == before)
        ++next_tokens;
      else
        run_.gaps.add(now_ - last, 1);
    }
    if (next_tokens > 0) run_.gaps.add(took, next_tokens);
    if (has_ram_ && policy_.ram_load != RamLoad::kBlocking)
      copies_.store(now_, cache_->take_copies().to_ram);
  }

  // `tokens` of a request have been computed; where it caught up, one more of its answer is known,
  // and true is returned.
  bool advance(RequestId id, TokenCount tokens) {
    RequestLog::State& s = log_.state(id);
    s.computed += tokens;
    run_.computed_tokens += tokens;
    if (s.computed < log_.known(id)) return false;
    token_at_[id] = now_;
    if (s.generated++ == 0) run_.requests[id].first_token = now_;
    if (!log_.has_ended(id)) return true;
    run_.requests[id].last_token = now_;
    if (watch_) watch_->ended(id, now_);
    arrivals_.ended(id, now_);
    return true;
  }

  Arrivals& arrivals_;
  const StepTime& time_;
  const SchedulerPolicy& policy_;
  RequestLog log_;  // what has been taken of the arrivals
  std::unique_ptr<KvCache> cache_;
  Scheduler scheduler_;
  const bool has_ram_;
  TierCopies copies_;
  ServingWatch* const watch_;      // nullptr: nobody
  std::vector<bool> scheduled_;    // by request
  std::vector<Seconds> token_at_;  // when its last token was there
  Seconds now_{};
  std::optional<Error> fault_;
  ServingRun run_;
};

}  // namespace

Result<ServingRun> serve(Arrivals& arrivals, const SchedulerPolicy& policy, const CacheRoom& room,
                         const StepTime& time, const RamTier& ram, ServingWatch* watch) {
  if (policy.step_tokens < 1 || policy.sequences < 1 || policy.block_tokens < 1 || room.tokens < 1)
    return bad_input("a scheduler without tokens, sequences or KV cache runs nothing");
  return Server(arrivals, policy, room, time, ram, watch).run();
}

Result<ServingRun> serve(const std::vector<ServedRequest>& load, const SchedulerPolicy& policy,
                         const CacheRoom& room, const StepTime& time, const RamTier& ram,
                         ServingWatch* watch) {
  ListedArrivals arrivals(load);
  return serve(arrivals, policy, room, time, ram, watch);
}

}  // namespace rigcast
