#include "engine/serve/scheduler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace rigcast::engine {

std::optional<Error> Scheduler::check(const SchedulerPolicy& policy) {
  if (policy.layout != KvLayout::kBlocks)
    return bad_input("the engine has blocks of KV, not slots as llama.cpp's server",
                     "--runtime rigcast, and no scheduler.layout");
  if (policy.order != StepOrder::kAdmission)
    return bad_input(fmt::format("the engine computes steps in the order of admission, not {}",
                                 name(policy.order)),
                     "leave scheduler.order out");
  if (policy.reserve == KvReserve::kEstimate)
    return bad_input("the engine does not estimate how long answers are",
                     "scheduler.reserve = \"prompt\", \"step\" or \"answers\"");
  if (policy.window_blocks)
    return bad_input("the engine gives windows a pool of their own, and takes no blocks of one",
                     "leave scheduler.window_blocks out");
  if (policy.shares_in_step)
    return bad_input("the engine offers blocks to others when their step has ended",
                     "scheduler.shares_in_step = false");
  if (policy.stages != 1) return bad_input("the engine has no pipeline of GPUs");
  if (policy.step_tokens < 1 || policy.sequences < 1)
    return bad_input("a scheduler without tokens or sequences runs nothing");
  return std::nullopt;
}

Scheduler::Scheduler(const SchedulerPolicy& policy, const BatchLimits& limits, KvPool& pool,
                     const RestoreRates& rates, Bytes block_bytes)
    : policy_(policy),
      step_tokens_(std::min(policy.step_tokens, limits.step_tokens)),
      sequences_(std::min(policy.sequences, std::size_t(limits.step_sequences))),
      pool_(pool),
      rates_(rates),
      block_bytes_(block_bytes) {
  RIGCAST_ASSERT(!check(policy) && step_tokens_ > 0 && sequences_ > 0);
}

const StepPlan& Scheduler::plan() {
  plan_.parts.clear();
  plan_.admitted.clear();
  plan_.loads.clear();
  plan_.preempted.clear();
  lacks_cache_ = false;
  // Copies from RAM that the last plan began are there when this step reads them.
  std::erase_if(loading_, [this](const Loading& load) {
    if (load.awaits_disk) return false;
    load.sequence->computed = load.tokens;
    loaded_.push_back(load);
    return true;
  });
  TokenCount left = step_tokens_;
  if (continue_running(left)) admit(left);
  return plan_;
}

void Scheduler::add(Sequence& sequence, TokenCount tokens, TokenCount& left) {
  plan_.parts.push_back({&sequence, tokens});
  left -= tokens;
}

void Scheduler::preempt_one() {
  auto victim = std::prev(running_.end());
  if (policy_.victim == Victim::kFewestGenerated)
    victim = std::ranges::min_element(running_, [](const Sequence* a, const Sequence* b) {
      const TokenCount of_a = a->generated(), of_b = b->generated();
      return of_a != of_b ? of_a < of_b : a->prompt > b->prompt;
    });
  Sequence& sequence = **victim;
  running_.erase(victim);
  pool_.release(sequence.own);
  plan_.preempted.push_back({&sequence, sequence.computed});
  sequence.computed = 0;
  ++sequence.preemptions;
  std::erase_if(plan_.parts,
                [&](const StepPlan::Part& part) { return part.sequence == &sequence; });
  if (policy_.requeue == Requeue::kFirst)
    waiting_.push_front(&sequence);
  else
    waiting_.push_back(&sequence);
}

// Room for `tokens` of a sequence that runs, if need be of others. False: it was preempted itself.
bool Scheduler::make_room(Sequence& sequence, TokenCount tokens) {
  while (!pool_.grow(sequence.own, tokens)) {
    preempt_one();
    if (plan_.preempted.back().sequence == &sequence) return false;
  }
  return true;
}

// How many tokens of a sequence its next step has, of those that are left of it. It ends where a
// checkpoint of the sequence's state is taken.
TokenCount Scheduler::next_tokens(const Sequence& sequence, TokenCount computed,
                                  TokenCount left) const {
  TokenCount tokens = std::min(sequence.known() - computed, left);
  if (!policy_.chunked) return tokens;
  for (const TokenCount end : {sequence.parts_at, sequence.last_checkpoint})
    if (computed < end) tokens = std::min(tokens, end - computed);
  return tokens;
}

// False: a sequence was preempted, and nobody is admitted.
bool Scheduler::continue_running(TokenCount& left) {
  for (std::size_t i = 0; i < running_.size() && left > 0; ++i) {
    Sequence& sequence = *running_[i];
    const TokenCount tokens = next_tokens(sequence, sequence.computed, left);
    if (!make_room(sequence, sequence.computed + tokens)) return false;
    add(sequence, tokens, left);
  }
  return plan_.preempted.empty();
}

// Blocks that answers of those that run, or will once their prefixes are restored, may still need.
int Scheduler::reserved_answers() const {
  int sum = 0;
  const auto add = [&](const Sequence& s) { sum += pool_.blocks_lacking(s.own, s.longest()); };
  for (const Sequence* sequence : running_) add(*sequence);
  for (const auto* list : {&loading_, &loaded_})
    for (const Loading& loading : *list) add(*loading.sequence);
  return sum;
}

bool Scheduler::has_room_for(const Sequence& sequence, const KvPool::Found& found,
                             TokenCount first) const {
  switch (policy_.reserve) {
    case KvReserve::kStep: return pool_.has_room(found, found.tokens() + first, 0);
    case KvReserve::kPrompt: return pool_.has_room(found, sequence.known(), 0);
    case KvReserve::kAnswers: return pool_.has_room(found, sequence.longest(), reserved_answers());
    case KvReserve::kEstimate: break;
  }
  return false;
}

void Scheduler::end_disk_load(Sequence& sequence, bool restored) {
  const auto own = std::ranges::find(loading_, &sequence, &Loading::sequence);
  RIGCAST_ASSERT(own != loading_.end() && own->awaits_disk);
  own->awaits_disk = false;
  if (restored) return;
  loading_.erase(own);
  pool_.release(sequence.own);
  waiting_.push_front(&sequence);
}

// What of its beginning is in the pool, and what of that elsewhere is faster to restore than to
// compute.
KvPool::Found Scheduler::find(Sequence& sequence) const {
  KvPool::Found found = pool_.find(sequence.tokens);
  const TokenCount elsewhere = found.to_restore();
  pool_.keep(found, rates_.worth_restoring(found.tiers, block_bytes_, pool_.block_tokens(),
                                           policy_.restore));
  if (found.to_restore() < policy_.ram_min_tokens) pool_.keep(found, 0);
  sequence.found_here = found.here_tokens;
  sequence.found_on_host = found.host_tokens;
  sequence.found_on_disk = found.disk_tokens;
  sequence.left_in_tiers = elsewhere - found.to_restore();
  if (pool_.keeps_states()) {
    sequence.parts_at = found.known_tokens;
    sequence.last_checkpoint = pool_.last_checkpoint(sequence.known());
  }
  return found;
}

void Scheduler::admit(TokenCount& left) {
  admit_loaded(left);
  while (!waiting_.empty() && left > 0 && running_.size() < sequences_) {
    Sequence& sequence = *waiting_.front();
    const KvPool::Found found = find(sequence);
    const TokenCount missing = sequence.known() - found.tokens();
    const bool loads = found.to_restore() > 0;
    const TokenCount tokens = next_tokens(sequence, found.tokens(), left);
    if (!policy_.chunked && tokens < missing) return;
    lacks_cache_ = !has_room_for(sequence, found, loads ? 0 : tokens);
    if (lacks_cache_) return;
    waiting_.pop_front();
    KvPool::Restored copies = pool_.admit(sequence.own, found);
    if (loads) {
      plan_.loads.push_back({&sequence, std::move(copies)});
      loading_.push_back({&sequence, found.tokens(), found.disk_tokens > 0});
      continue;
    }
    sequence.computed = found.tokens();
    run(sequence, tokens, left);
  }
}

void Scheduler::run(Sequence& sequence, TokenCount tokens, TokenCount& left) {
  const bool has_room = pool_.grow(sequence.own, sequence.computed + tokens);
  RIGCAST_ASSERT(has_room);
  plan_.admitted.push_back(&sequence);
  running_.push_back(&sequence);
  add(sequence, tokens, left);
}

// Those whose blocks are back come before others that wait.
void Scheduler::admit_loaded(TokenCount& left) {
  while (!loaded_.empty() && left > 0 && running_.size() < sequences_) {
    Sequence& sequence = *loaded_.front().sequence;
    const TokenCount tokens = next_tokens(sequence, sequence.computed, left);
    if (pool_.blocks_lacking(sequence.own, sequence.computed + tokens) > pool_.free_blocks()) {
      // If nothing runs that would end, the last of those that hold room gives it up.
      if (!running_.empty() || !loading_.empty()) return;
      Sequence& last = *loaded_.back().sequence;
      loaded_.pop_back();
      last.computed = 0;
      pool_.release(last.own);
      waiting_.push_front(&last);
      continue;
    }
    loaded_.pop_front();
    run(sequence, tokens, left);
  }
}

void Scheduler::restart(Sequence& sequence) {
  std::erase(running_, &sequence);
  pool_.release(sequence.own);
  sequence.computed = 0;
  waiting_.push_front(&sequence);
}

void Scheduler::remove(Sequence& sequence) {
  std::erase(waiting_, &sequence);
  std::erase(running_, &sequence);
  for (auto* list : {&loading_, &loaded_})
    std::erase_if(*list, [&](const Loading& load) { return load.sequence == &sequence; });
  pool_.release(sequence.own);
}

}  // namespace rigcast::engine
