#include "sim/serving/serve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <string>

#include "sim/serving/kv_blocks.hpp"

namespace rigcast {
namespace {

using RequestId = std::uint32_t;

struct Sequence {
  TokenCount computed = 0;   // tokens whose KV is there
  TokenCount generated = 0;  // tokens of the answer that are known
  std::vector<BlockId> blocks;
};

// What is wrong with the last request; empty: nothing.
std::string fault_of(const std::vector<ServedRequest>& load, const SchedulerPolicy& policy,
                     std::size_t blocks) {
  const std::size_t id = load.size() - 1;
  const ServedRequest& r = load[id];
  if (r.prompt < 1 || r.output < 1) return "has a prompt or an answer without tokens";
  if (!std::isfinite(r.arrival.value) || (id > 0 && r.arrival < load[id - 1].arrival))
    return "arrives before the one before it";
  if (r.shared < 0 || (r.continues && *r.continues >= id)) return "continues no earlier one";
  // The last token is not computed further.
  const TokenCount room = TokenCount(blocks) * policy.block_tokens;
  if (r.prompt > room || r.output - 1 > room - r.prompt)
    return fmt::format("has {} tokens of prompt and {} of answer, more than the {} of the cache",
                       r.prompt, r.output, room);
  return {};
}

class Server {
 public:
  Server(Arrivals& arrivals, const SchedulerPolicy& policy, std::size_t blocks,
         const StepTime& time)
      : arrivals_(arrivals), policy_(policy), time_(time), pool_(blocks) {}

  Result<ServingRun> run() {
    for (receive(); !fault_; receive()) {
      plan();
      if (!step_.empty()) {
        if (!skip_ahead()) compute();
      } else if (const auto next = arrivals_.next()) {
        pass(*next - now_);  // idle until then
      } else {
        break;
      }
    }
    if (fault_) return *std::move(fault_);
    run_.end = now_;
    run_.free_blocks_at_end = pool_.free();
    run_.load = std::move(load_);
    return std::move(run_);
  }

 private:
  struct Part {
    RequestId request;
    TokenCount tokens;
  };

  TokenCount known_tokens(RequestId id) const {
    return load_[id].prompt + sequences_[id].generated;
  }
  std::size_t blocks_for(TokenCount tokens) const {
    return std::size_t((tokens + policy_.block_tokens - 1) / policy_.block_tokens);
  }

  // Takes what has arrived. It is admitted with the next step at the earliest.
  void receive() {
    for (auto next = arrivals_.next(); next && !fault_ && !(*next > now_);
         next = arrivals_.next()) {
      load_.push_back(arrivals_.take());
      const std::size_t id = load_.size() - 1;
      if (const std::string fault = fault_of(load_, policy_, pool_.count()); !fault.empty())
        fault_ = bad_input(fmt::format("request {} of the load {}", id + 1, fault));
      // It has waited since it arrived, be it within a step.
      run_.waiting += (now_ - load_.back().arrival).value;
      run_.requests.emplace_back();
      sequences_.emplace_back();
      scheduled_.push_back(false);
      waiting_.push_back(RequestId(id));
    }
  }

  // Time passes: what waits, runs and is in use is counted.
  void pass(Seconds time) {
    run_.waiting += double(waiting_.size()) * time.value;
    run_.running += double(running_.size()) * time.value;
    const std::size_t used = pool_.count() - pool_.free();
    run_.blocks += double(used) * time.value;
    run_.peak_blocks = std::max(run_.peak_blocks, used);
    now_ += time;
  }

  bool allocate(RequestId id, TokenCount tokens) {
    Sequence& s = sequences_[id];
    const std::size_t wanted = blocks_for(tokens);
    if (wanted <= s.blocks.size()) return true;
    if (wanted - s.blocks.size() > pool_.free()) return false;
    while (s.blocks.size() < wanted) s.blocks.push_back(pool_.take());
    return true;
  }

  void preempt(RequestId id) {
    Sequence& s = sequences_[id];
    pool_.release(s.blocks);
    s.blocks.clear();
    run_.lost_tokens += s.computed;
    s.computed = 0;
    ++run_.requests[id].preemptions;
    waiting_.push_front(id);
  }

  // Fills `step_` with the next step's parts.
  void plan() {
    step_.clear();
    TokenCount left = policy_.step_tokens;
    if (continue_running(left)) admit(left);
  }

  // False: a request was preempted.
  bool continue_running(TokenCount& left) {
    bool preempted = false;
    for (std::size_t i = 0; i < running_.size() && left > 0; ++i) {
      const RequestId id = running_[i];
      const TokenCount computed = sequences_[id].computed;
      const TokenCount tokens = std::min(known_tokens(id) - computed, left);
      while (!allocate(id, computed + tokens)) {
        const RequestId victim = running_.back();
        running_.pop_back();
        preempt(victim);
        preempted = true;
        if (victim == id) return false;
      }
      step_.push_back({id, tokens});
      left -= tokens;
    }
    return !preempted;
  }

  // The request whose tokens block `index` of a prompt holds: the first with this beginning.
  BlockContent content(RequestId id, std::uint32_t index) const {
    while (load_[id].continues && TokenCount(index + 1) * policy_.block_tokens <= load_[id].shared)
      id = RequestId(*load_[id].continues);
    return {id, index};
  }

  // The blocks that hold the beginning of what is known of a request, less its last token, which is
  // always computed.
  std::vector<BlockId> cached_blocks(RequestId id) const {
    std::vector<BlockId> hits;
    if (!policy_.prefix_cache) return hits;
    const auto full = std::uint32_t((known_tokens(id) - 1) / policy_.block_tokens);
    for (std::uint32_t index = 0; index < full; ++index) {
      const auto block = pool_.find(content(id, index));
      if (!block) break;
      hits.push_back(*block);
    }
    return hits;
  }

  void admit(TokenCount left) {
    while (!waiting_.empty() && left > 0 && running_.size() < policy_.sequences) {
      const RequestId id = waiting_.front();
      Sequence& s = sequences_[id];
      const std::vector<BlockId> hits = cached_blocks(id);
      const TokenCount hit = TokenCount(hits.size()) * policy_.block_tokens;
      const TokenCount tokens = std::min(known_tokens(id) - hit, left);
      const TokenCount needed = policy_.whole_prompts ? known_tokens(id) : hit + tokens;
      const auto unused = std::size_t(
          std::ranges::count_if(hits, [&](BlockId block) { return pool_.is_free(block); }));
      if (blocks_for(needed) - hits.size() + unused > pool_.free()) return;
      for (const BlockId block : hits) pool_.share(block);
      s.blocks = hits;
      s.computed = hit;
      run_.hit_tokens += hit;
      allocate(id, hit + tokens);
      waiting_.pop_front();
      running_.push_back(id);
      ServedTimes& times = run_.requests[id];
      if (!scheduled_[id]) {
        times.scheduled = now_;
        times.hit = hit;
      }
      scheduled_[id] = true;
      step_.push_back({id, tokens});
      left -= tokens;
    }
  }

  StepWork work() const {
    StepWork w;
    for (const Part& part : step_) {
      const Sequence& s = sequences_[part.request];
      if (part.tokens == 1 && s.generated > 0) {
        ++w.decodes;
        w.decodes_cached += double(s.computed);
      } else {
        w.prompts.push_back({s.computed, part.tokens});
      }
    }
    return w;
  }

  void compute() {
    const Seconds took = time_(work());
    pass(took);
    ++run_.steps;
    run_.busy += took;
    for (const Part& part : step_) advance(part.request, part.tokens);
    end_finished();
  }

  // `tokens` of a request have been computed; where it caught up, one more of its answer is known.
  void advance(RequestId id, TokenCount tokens) {
    Sequence& s = sequences_[id];
    const TokenCount before = s.computed;
    s.computed += tokens;
    run_.computed_tokens += tokens;
    hold_full_blocks(id, before);
    if (s.computed < known_tokens(id)) return;
    if (s.generated++ == 0) run_.requests[id].first_token = now_;
    if (s.generated == load_[id].output) run_.requests[id].last_token = now_;
  }

  void hold_full_blocks(RequestId id, TokenCount before) {
    if (!policy_.prefix_cache) return;
    const Sequence& s = sequences_[id];
    for (TokenCount b = before / policy_.block_tokens; b < s.computed / policy_.block_tokens; ++b)
      pool_.hold(s.blocks[std::size_t(b)], content(id, std::uint32_t(b)));
  }

  void end_finished() {
    std::erase_if(running_, [&](RequestId id) {
      if (sequences_[id].generated < load_[id].output) return false;
      arrivals_.ended(id, now_);
      pool_.release(sequences_[id].blocks);
      sequences_[id].blocks.clear();
      return true;
    });
  }

  // Several steps at once, in which every sequence that runs gets a token and nothing else happens:
  // none ends before the last, none arrives before the last begins, all find blocks. False: there
  // are none.
  bool skip_ahead() {
    const StepWork w = work();
    if (!w.prompts.empty() || w.decodes < 1 || step_.size() < running_.size()) return false;
    TokenCount steps = std::numeric_limits<TokenCount>::max();
    for (const RequestId id : running_)
      steps = std::min(steps, load_[id].output - sequences_[id].generated);
    steps = std::min(steps, steps_with_blocks(steps));
    if (steps < 2) return false;
    StepWork last = w;
    const Seconds first = time_(w);
    last.decodes_cached += double(w.decodes) * double(steps - 1);
    const double slope = (time_(last) - first).value / double(steps - 1);
    const bool next_is_admitted = waiting_.empty() && running_.size() < policy_.sequences;
    if (const auto next = arrivals_.next(); next && next_is_admitted)
      steps = std::min(steps, steps_until(*next - now_, first.value, slope));
    if (steps < 2) return false;
    take_steps(steps, first.value, slope);
    return true;
  }

  // Steps of `first` + k `slope` seconds after which a time is reached.
  static TokenCount steps_until(Seconds until, double first, double slope) {
    const double t = until.value;
    if (t <= 0) return 1;
    const double a = slope / 2, b = first - slope / 2;  // a k^2 + b k seconds of k steps
    const double k = a <= 0 ? t / b : (std::sqrt(b * b + 4 * a * t) - b) / (2 * a);
    return std::max<TokenCount>(1, TokenCount(std::ceil(k)));
  }

  TokenCount steps_with_blocks(TokenCount most) const {
    const auto needed = [&](TokenCount steps) {
      std::size_t sum = 0;
      for (const RequestId id : running_) {
        const Sequence& s = sequences_[id];
        sum += blocks_for(s.computed + steps) -
               std::min(s.blocks.size(), blocks_for(s.computed + steps));
      }
      return sum;
    };
    if (needed(most) <= pool_.free()) return most;
    TokenCount good = 1, bad = most;
    while (bad - good > 1)
      (needed((good + bad) / 2) <= pool_.free() ? good : bad) = (good + bad) / 2;
    return good;
  }

  void take_steps(TokenCount steps, double first, double slope) {
    for (TokenCount k = 0; k < steps; ++k) {
      const Seconds took{first + slope * double(k)};
      if (k > 0)
        for (const RequestId id : running_) allocate(id, sequences_[id].computed + 1);
      pass(took);
      run_.busy += took;
      for (const RequestId id : running_) advance(id, 1);
    }
    run_.steps += steps;
    end_finished();
  }

  Arrivals& arrivals_;
  const SchedulerPolicy& policy_;
  const StepTime& time_;
  KvBlocks pool_;
  std::vector<ServedRequest> load_;  // what has been taken of the arrivals
  std::vector<Sequence> sequences_;  // of each, as are the two below
  std::vector<bool> scheduled_;
  std::deque<RequestId> waiting_;
  std::vector<RequestId> running_;  // in order of admission
  std::vector<Part> step_;
  Seconds now_{};
  std::optional<Error> fault_;
  ServingRun run_;
};

}  // namespace

Result<ServingRun> serve(Arrivals& arrivals, const SchedulerPolicy& policy, std::size_t blocks,
                         const StepTime& time) {
  if (policy.step_tokens < 1 || policy.sequences < 1 || policy.block_tokens < 1)
    return bad_input("a scheduler without tokens, sequences or blocks of tokens runs nothing");
  return Server(arrivals, policy, blocks, time).run();
}

Result<ServingRun> serve(const std::vector<ServedRequest>& load, const SchedulerPolicy& policy,
                         std::size_t blocks, const StepTime& time) {
  ListedArrivals arrivals(load);
  return serve(arrivals, policy, blocks, time);
}

}  // namespace rigcast
