#include "sim/serving/serve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
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

// When each stage of a pipeline has ended what it was sent.
class StageClock {
 public:
  // Sends a step to the first stage. Returns when the last one will have ended it.
  Seconds send(Seconds now, const sim::StepUse& use) {
    Seconds first = use.time;
    for (const Seconds later : use.later_stages) first -= later;
    Seconds at = ends_.front() = std::max(now, ends_.front()) + first;
    for (std::size_t i = 1; i < ends_.size(); ++i)
      at = ends_[i] = std::max(at, ends_[i]) + use.later_stages[i - 1];
    return at;
  }

 private:
  std::array<Seconds, kMaxStages> ends_{};
};

// A step of a pipeline whose tokens are not known yet.
struct StepUnderWay {
  struct Part {
    RequestId request;
    TokenCount tokens;
    bool ends;  // a token of the answer follows
    bool is_decode;
  };
  std::vector<Part> parts;
  Seconds begins, ends;
  bool has_prompts = false;
};

class Server {
 public:
  Server(Arrivals& arrivals, const SchedulerPolicy& policy, const CacheRoom& room,
         const StepTime& time, const RamTier& ram, ServingWatch* watch)
      : arrivals_(arrivals),
        time_(time),
        policy_(policy),
        cache_(make_kv_cache(policy, room, ram, log_)),
        scheduler_(policy, *cache_, log_),
        tiers_(ram),
        copies_(ram, policy.ram_load, watch),
        watch_(watch) {}

  Result<ServingRun> run() {
    measure_prompts();
    for (receive(); !fault_; receive()) {
      const StepPlan& plan = scheduler_.plan();
      note(plan);
      copy(plan);
      if (scheduler_.has_overflowed()) {
        fault_ = overflow();
      } else if (policy_.stages > 1 && (!plan.parts.empty() || !under_way_.empty())) {
        advance_pipeline(plan);
      } else if (!plan.parts.empty()) {
        compute(plan);
      } else if (!plan.preempted.empty()) {
        continue;  // the one that asked for room gave up its own; others go on with the next plan
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
    run_.from_disk = copies_.from_disk().bytes;
    tell_restored();
    run_.load = log_.requests();
    return std::move(run_);
  }

 private:
  // Rates by which it was decided what comes back.
  void tell_restored() {
    if (!decides_by_rates()) return;
    if (tiers_.capacity.value > 0) restored_.from_ram = tiers_.restore.from_ram;
    if (tiers_.disk.value > 0) restored_.from_disk = tiers_.restore.from_disk;
    restored_.prompt_tokens_per_s = cache_->prompt_rate();
    run_.restore = restored_;
  }
  bool decides_by_rates() const { return tiers_.any() && tiers_.restore.when == KvRestore::kAuto; }

  // How fast prompts are computed: before the load a step of nothing else, then those steps that
  // have at least half as many tokens of prompts.
  void measure_prompts() {
    if (!decides_by_rates()) return;
    StepWork whole;
    whole.prompts.push_back({0, policy_.step_tokens, true});
    cache_->computed_prompts(policy_.step_tokens, time_(whole).time);
  }
  void note_prompts(const StepPlan& plan, Seconds took) {
    if (!decides_by_rates()) return;
    TokenCount tokens = 0;
    for (const StepPlan::Part& part : plan.parts)
      if (part.tokens > 1 || log_.state(part.request).generated == 0) tokens += part.tokens;
    if (2 * tokens >= policy_.step_tokens) cache_->computed_prompts(tokens, took);
  }

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
      const std::size_t running = std::min(policy_.sequences, scheduler_.running().size());
      if (policy_.max_waiting > 0 &&
          scheduler_.waiting() >= policy_.max_waiting + policy_.sequences - running)
        ++run_.beyond_queue;
      run_.requests.emplace_back().queued = log_[id].arrival;
      scheduled_.push_back(false);
      token_at_.emplace_back();
      shown_.emplace_back();
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
    if (!under_way_.empty()) run_.busy += time;
    if (std::ranges::any_of(under_way_, &StepUnderWay::has_prompts)) run_.with_prompts += time;
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
      run_.disk_hit_tokens += found.on_disk;
      restored_.computed_anew += found.left;
      if (scheduled_[id]) continue;
      scheduled_[id] = true;
      run_.requests[id].scheduled = now_;
      run_.requests[id].hit = found.here;
      run_.requests[id].ram_hit = found.in_ram;
      run_.requests[id].disk_hit = found.on_disk;
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
    if (!tiers_.any()) return;
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
        w.decodes_cached += double(s.begun());
      } else {
        w.prompts.push_back({s.begun(), tokens, s.begun() + tokens == log_.known(id)});
      }
    }
    return w;
  }

  // A pipeline's steps, as vLLM's step_with_batch_queue() has them: what can be scheduled is sent
  // to the first stage at once, as long as no more steps are under way than there are stages. Else
  // the server waits for the oldest one, and takes nothing that arrives meanwhile.
  void advance_pipeline(const StepPlan& plan) {
    if (!plan.parts.empty()) send(plan);
    const bool has_room = under_way_.size() < std::size_t(policy_.stages);
    if (!plan.parts.empty() && has_room && under_way_.front().ends > now_) return;
    end_oldest();
  }

  void send(const StepPlan& plan) {
    const StepWork work = work_of(plan);
    StepUnderWay step{{}, now_, stages_.send(now_, time_(work)), !work.prompts.empty()};
    for (const auto& [id, tokens] : plan.parts) {
      RequestLog::State& s = log_.state(id);
      s.under_way += tokens;
      ++s.steps;
      const bool is_decode = tokens == 1 && s.generated > 0;
      step.parts.push_back({id, tokens, s.begun() == log_.known(id), is_decode});
    }
    under_way_.push_back(std::move(step));
  }

  void end_oldest() {
    pass(under_way_.front().ends - now_);
    const StepUnderWay step = std::move(under_way_.front());
    under_way_.pop_front();
    now_ = step.ends;
    ++run_.steps;
    for (const StepUnderWay::Part& part : step.parts) end_part(step, part);
    scheduler_.remove_ended();
  }

  void end_part(const StepUnderWay& step, const StepUnderWay::Part& part) {
    const RequestId id = part.request;
    RequestLog::State& s = log_.state(id);
    --s.steps;
    // One that was preempted meanwhile has lost the tokens, but what was sampled is kept.
    const bool is_lost = s.under_way == 0;
    const Seconds last = token_at_[id];
    if (watch_ && !is_lost)
      watch_->computed({id, std::max(step.begins, shown_[id]), now_, part.tokens, part.is_decode});
    shown_[id] = now_;
    if (is_lost) {
      run_.computed_tokens += part.tokens;
      if (!part.ends) return;
      take_token(id);
    } else {
      s.under_way -= part.tokens;
      if (!advance(id, part.tokens)) return;
    }
    if (s.generated > 1) run_.gaps.add(now_ - last, 1);
    if (!is_lost || !log_.has_ended(id)) return;
    scheduler_.withdraw(id);
    run_.lost_tokens -= log_.longest(id);  // nobody computes them anew
  }

  void compute(const StepPlan& plan) {
    const StepWork work = work_of(plan);
    if (work.prompts.empty()) return decode(plan, work);
    const Seconds took = copies_.step(now_, time_(work));
    run_.with_prompts += took;
    note_prompts(plan, took);
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
    if (!tiers_.any() || policy_.ram_load == RamLoad::kBlocking) return;
    const KvCache::Copies kept = cache_->take_copies();
    copies_.store(now_, kept.to_ram);
    run_.to_disk += kept.to_disk;
  }

  // `tokens` of a request have been computed; where it caught up, one more of its answer is known,
  // and true is returned.
  bool advance(RequestId id, TokenCount tokens) {
    RequestLog::State& s = log_.state(id);
    s.computed += tokens;
    run_.computed_tokens += tokens;
    if (s.computed < log_.known(id)) return false;
    take_token(id);
    return true;
  }

  // One more token of the answer is known.
  void take_token(RequestId id) {
    token_at_[id] = now_;
    if (log_.state(id).generated++ == 0) run_.requests[id].first_token = now_;
    if (!log_.has_ended(id)) return;
    run_.requests[id].last_token = now_;
    if (watch_) watch_->ended(id, now_);
    arrivals_.ended(id, now_);
  }

  Arrivals& arrivals_;
  const StepTime& time_;
  const SchedulerPolicy& policy_;
  RequestLog log_;  // what has been taken of the arrivals
  std::unique_ptr<KvCache> cache_;
  Scheduler scheduler_;
  const RamTier& tiers_;
  TierCopies copies_;
  ServingWatch* const watch_;           // nullptr: nobody
  std::vector<bool> scheduled_;         // by request
  std::vector<Seconds> token_at_;       // when its last token was there
  std::vector<Seconds> shown_;          // until when `watch_` was told of a step with it
  std::deque<StepUnderWay> under_way_;  // of a pipeline, the oldest first
  StageClock stages_;
  Seconds now_{};
  std::optional<Error> fault_;
  RestoreFigures restored_;
  ServingRun run_;
};

}  // namespace

Result<ServingRun> serve(Arrivals& arrivals, const SchedulerPolicy& policy, const CacheRoom& room,
                         const StepTime& time, const RamTier& ram, ServingWatch* watch) {
  if (policy.step_tokens < 1 || policy.sequences < 1 || policy.block_tokens < 1 || room.tokens < 1)
    return bad_input("a scheduler without tokens, sequences or KV cache runs nothing");
  if (policy.stages < 1 || policy.stages > kMaxStages)
    return bad_input(fmt::format("a pipeline has 1 to {} stages", kMaxStages));
  const bool takes_disk = policy.ram_load == RamLoad::kAhead && policy.layout == KvLayout::kBlocks;
  if (ram.disk.value > 0 && !takes_disk)
    return bad_input("a cache on disk is simulated behind blocks that come back ahead",
                     "leave out scheduler.ram_load");
  const bool takes_stages = policy.order == StepOrder::kAdmission &&
                            policy.layout == KvLayout::kBlocks &&
                            policy.reserve != KvReserve::kEstimate && !ram.any();
  if (policy.stages > 1 && !takes_stages)
    return bad_input(
        "a pipeline is simulated by the rules of vLLM, without a cache in RAM or on disk");
  return Server(arrivals, policy, room, time, ram, watch).run();
}

Result<ServingRun> serve(const std::vector<ServedRequest>& load, const SchedulerPolicy& policy,
                         const CacheRoom& room, const StepTime& time, const RamTier& ram,
                         ServingWatch* watch) {
  ListedArrivals arrivals(load);
  return serve(arrivals, policy, room, time, ram, watch);
}

}  // namespace rigcast
