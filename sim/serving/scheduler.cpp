#include "sim/serving/scheduler.hpp"

#include <algorithm>
#include <limits>

namespace rigcast {

const StepPlan& Scheduler::plan() {
  plan_.parts.clear();
  plan_.admitted.clear();
  plan_.preempted.clear();
  plan_.loads.clear();
  lacks_cache_ = false;
  TokenCount left = policy_.step_tokens;
  switch (policy_.order) {
    case StepOrder::kAdmission:
      if (continue_running(left)) admit(left);
      break;
    case StepOrder::kDecodesFirst: {
      // A request takes a slot when there is one; its prompt waits for its turn among the slots.
      TokenCount none = std::numeric_limits<TokenCount>::max();
      admit(none);
      plan_.parts.clear();
      continue_decodes(left);
      continue_prompts(left);
      break;
    }
    case StepOrder::kPromptsFirst:
      continue_prompts(left);
      admit(left);
      if (plan_.parts.empty()) continue_decodes(left);
      break;
    case StepOrder::kWholeBatches:
      // A batch fills while its prompts are computed.
      if (std::ranges::all_of(running_, [&](RequestId id) { return is_prompt(id); })) {
        if (continue_running(left)) admit(left);
      } else {
        continue_running(left);
      }
      break;
  }
  return plan_;
}

void Scheduler::add(RequestId id, TokenCount tokens, TokenCount& left) {
  plan_.parts.push_back({id, tokens});
  left -= tokens;
}

void Scheduler::preempt_one() {
  auto victim = std::prev(running_.end());
  if (policy_.victim == Victim::kFewestGenerated)
    victim = std::ranges::min_element(running_, [&](RequestId a, RequestId b) {
      const TokenCount of_a = log_.state(a).generated, of_b = log_.state(b).generated;
      return of_a != of_b ? of_a < of_b : log_[a].prompt > log_[b].prompt;
    });
  const RequestId id = *victim;
  running_.erase(victim);
  cache_.release(id);
  RequestLog::State& state = log_.state(id);
  plan_.preempted.push_back({id, state.begun()});
  state.computed = state.under_way = 0;
  std::erase_if(plan_.parts, [id](const StepPlan::Part& part) { return part.request == id; });
  policy_.requeue == Requeue::kFirst ? waiting_.push_front(id) : waiting_.push_back(id);
  if (policy_.reserve == KvReserve::kEstimate) {
    // As much as the answers have taken so far, and 20 steps more: SGLang,
    // managers/schedule_batch.py, retract_decode().
    constexpr double kSteps = 20;
    double generated = 0, longest = 0;
    for (const RequestId other : running_) {
      generated += double(log_.state(other).generated) + kSteps;
      longest += double(log_[other].output);
    }
    if (longest > 0) estimate_ = std::min(1.0, generated / longest);
  }
}

// Room for `tokens` of a request that runs, if need be of others. False: it was preempted itself.
bool Scheduler::make_room(RequestId id, TokenCount tokens) {
  while (!cache_.grow(id, tokens)) {
    if (policy_.layout == KvLayout::kSlots) return !(has_overflowed_ = true);
    preempt_one();
    if (plan_.preempted.back().request == id) return false;
  }
  return true;
}

// False: a request was preempted.
bool Scheduler::continue_running(TokenCount& left) {
  for (std::size_t i = 0; i < running_.size() && left > 0; ++i) {
    const RequestId id = running_[i];
    const TokenCount begun = log_.state(id).begun();
    const TokenCount tokens = std::min(log_.known(id) - begun, left);
    if (tokens <= 0) continue;  // its next token is known when a step under way has ended
    if (!make_room(id, begun + tokens)) return false;
    add(id, tokens, left);
  }
  return plan_.preempted.empty();
}

// Every answer gets its token, be they more than the budget: a batch is then cut into several.
void Scheduler::continue_decodes(TokenCount& left) {
  const std::vector<RequestId> all = running_;
  for (const RequestId id : all) {
    if (is_prompt(id) || log_.state(id).computed == 0) continue;  // or it was preempted just now
    if (log_.known(id) - log_.state(id).computed > 1) continue;   // computed anew, as a prompt
    if (make_room(id, log_.known(id))) add(id, 1, left);
  }
}

void Scheduler::continue_prompts(TokenCount& left) {
  for (const RequestId id : running_) {
    const TokenCount computed = log_.state(id).computed;
    const TokenCount missing = log_.known(id) - computed;
    if (left <= 0 || (missing <= 1 && !is_prompt(id))) continue;
    const TokenCount tokens = std::min(missing, left);
    if (!cache_.grow(id, computed + tokens)) {
      has_overflowed_ = policy_.layout == KvLayout::kSlots;
      return;
    }
    add(id, tokens, left);
  }
}

// Units of the cache that answers of those that run, or will once their prefixes are loaded, may
// still need: each request's own, in whole units, as TensorRT-LLM's GuaranteedNoEvictScheduler
// counts its blocks.
std::size_t Scheduler::reserved_answers() const {
  std::size_t sum = 0;
  const auto add = [&](RequestId id) { sum += cache_.units_lacking(id, log_.longest(id)); };
  for (const RequestId id : running_) add(id);
  for (const auto* list : {&loading_, &loaded_})
    for (const Loading& loading : *list) add(loading.request);
  return sum;
}

// The same of a share of the answers, in tokens of all together, as SGLang counts them.
std::size_t Scheduler::estimated_answers() const {
  double sum = 0;
  for (const RequestId id : running_) {
    const TokenCount more = log_.longest(id) - log_.state(id).computed;
    sum += estimate_ * double(std::min(more, policy_.estimate_longest));
  }
  return cache_.units_for(TokenCount(sum));
}

bool Scheduler::has_room_for(RequestId id, TokenCount hit, TokenCount first) const {
  switch (policy_.reserve) {
    case KvReserve::kStep: return cache_.has_room(hit + first, 0);
    case KvReserve::kPrompt: return cache_.has_room(log_.known(id), 0);
    case KvReserve::kAnswers: return cache_.has_room(log_.longest(id), reserved_answers());
    case KvReserve::kEstimate: {
      const TokenCount answer = log_.longest(id) - log_.known(id);
      const TokenCount most = std::min(answer, policy_.estimate_longest);
      // A request alone is admitted with what its prompt needs.
      return cache_.has_room(log_.known(id) + (running_.empty() ? 0 : most), estimated_answers());
    }
  }
  return false;
}

void Scheduler::admit(TokenCount& left) {
  admit_loaded(left);
  while (!waiting_.empty() && left > 0 && running_.size() < policy_.sequences) {
    const RequestId id = waiting_.front();
    // It was preempted with a step under way, whose token is kept.
    if (log_.state(id).steps > 0) return;
    const KvCache::Found found = cache_.find(id);
    const TokenCount missing = log_.known(id) - found.all();
    const bool loads_ahead = found.to_load() > 0 && policy_.ram_load == RamLoad::kAhead;
    const TokenCount tokens = std::min(missing, left);
    if (!policy_.chunked && tokens < missing) return;
    lacks_cache_ = !has_room_for(id, found.all(), loads_ahead ? 0 : tokens);
    if (lacks_cache_) return;
    waiting_.pop_front();
    cache_.admit(id);
    if (found.to_load() > 0) plan_.loads.push_back({id, found.in_ram, found.on_disk});
    if (loads_ahead) {
      cache_.reserve(id, found.all());
      loading_.push_back({id, found});
      continue;
    }
    log_.state(id).computed = found.all();
    plan_.admitted.push_back({id, found});
    run(id, tokens, left);
  }
}

// It has room for so many more tokens. Slots give it when the tokens are computed.
void Scheduler::run(RequestId id, TokenCount tokens, TokenCount& left) {
  if (policy_.order != StepOrder::kDecodesFirst) cache_.grow(id, log_.state(id).computed + tokens);
  const std::size_t place = cache_.place(id);
  running_.insert(std::ranges::upper_bound(running_, place, {},
                                           [&](RequestId other) { return cache_.place(other); }),
                  id);
  add(id, tokens, left);
}

void Scheduler::end_load(RequestId id) {
  const auto own = std::ranges::find(loading_, id, &Loading::request);
  log_.state(id).computed = own->found.all();
  loaded_.push_back(*own);
  loading_.erase(own);
}

// Those whose keys and values are back come before others that wait.
void Scheduler::admit_loaded(TokenCount& left) {
  while (!loaded_.empty() && left > 0 && running_.size() < policy_.sequences) {
    const auto [id, found] = loaded_.front();
    const TokenCount tokens = std::min(log_.known(id) - found.all(), left);
    if (!cache_.grow(id, found.all() + tokens)) {
      // If nothing runs that would end, the last of those that hold room gives it up.
      if (!running_.empty() || !loading_.empty()) return;
      const RequestId last = loaded_.back().request;
      log_.state(last).computed = 0;
      cache_.release(last);
      waiting_.push_front(last);
      loaded_.pop_back();
      continue;
    }
    loaded_.pop_front();
    plan_.admitted.push_back({id, found});
    run(id, tokens, left);
  }
}

void Scheduler::remove_ended() {
  std::erase_if(running_, [&](RequestId id) {
    if (!log_.has_ended(id)) return false;
    cache_.release(id);
    return true;
  });
}

void Scheduler::withdraw(RequestId id) { std::erase(waiting_, id); }

bool Scheduler::admits_arrivals() const {
  return waiting_.empty() && loaded_.empty() && running_.size() < policy_.sequences &&
         policy_.order != StepOrder::kWholeBatches;
}

TokenCount Scheduler::steps_without_decisions(TokenCount most) const {
  // With every step the estimate falls, and somebody who waits may be admitted.
  const bool admits_later = policy_.reserve == KvReserve::kEstimate && waiting() > 0 &&
                            running_.size() < policy_.sequences;
  // Where one was preempted, nobody was admitted: with the next step, somebody may be.
  const bool was_preempted = !plan_.preempted.empty();
  if (admits_later || was_preempted || plan_.parts.size() < running_.size()) return 1;
  if (cache_.can_grow(running_, most)) return most;
  TokenCount good = 1, bad = most;
  while (bad - good > 1) {
    const TokenCount middle = (good + bad) / 2;
    (cache_.can_grow(running_, middle) ? good : bad) = middle;
  }
  return good;
}

void Scheduler::idled() { estimate_ = policy_.estimate_first; }

void Scheduler::decoded(TokenCount steps) {
  if (policy_.reserve != KvReserve::kEstimate) return;
  const double fall = (policy_.estimate_first - policy_.estimate_least) / policy_.estimate_steps;
  estimate_ = std::max(policy_.estimate_least, estimate_ - fall * double(steps));
}

}  // namespace rigcast
