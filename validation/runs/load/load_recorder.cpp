#include "validation/runs/load/load_recorder.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace rigcast::validation {

using engine::CompletionId;
using engine::FinishReason;
using engine::ServedStep;

Seconds LoadRecorder::since_start(Time at) const {
  return Seconds{std::chrono::duration<double>(at - start_).count()};
}

LoadRecorder::Request* LoadRecorder::find(CompletionId id) {
  const auto number = number_of_.find(id);
  return number == number_of_.end() ? nullptr : &requests_[number->second];
}

// Time passes: what waits, runs and is in use is counted.
void LoadRecorder::pass(Time now) {
  const double seconds = std::chrono::duration<double>(now - last_).count();
  if (seconds <= 0) return;
  running_ = std::min(running_, alive_);
  run_.running += double(running_) * seconds;
  run_.waiting += double(alive_ - running_) * seconds;
  run_.blocks += double(blocks_used_) * seconds;
  last_ = now;
}

void LoadRecorder::queued(CompletionId id, Time arrival, Time) {
  const std::lock_guard lock(mutex_);
  Request* r = find(id);
  if (!r) return;
  pass(arrival);
  // What arrives during a step is told after its end, up to which time has passed already.
  if (arrival < last_)
    run_.waiting += std::chrono::duration<double>(last_ - arrival).count();
  ++alive_;
  r->times.queued = since_start(arrival);
}

void LoadRecorder::admitted(CompletionId id, Time at, const engine::FoundTokens& found) {
  const std::lock_guard lock(mutex_);
  Request* r = find(id);
  if (!r) return;
  run_.hit_tokens += found.here;
  run_.ram_hit_tokens += found.on_host;
  run_.disk_hit_tokens += found.on_disk;
  computed_anew_ += found.computed_anew;
  if (std::exchange(r->was_admitted, true)) return;
  r->times.scheduled = since_start(at);
  r->times.hit = found.here;
  r->times.ram_hit = found.on_host;
  r->times.disk_hit = found.on_disk;
}

void LoadRecorder::preempted(CompletionId id, Time, TokenCount lost) {
  const std::lock_guard lock(mutex_);
  run_.lost_tokens += lost;
  if (Request* r = find(id)) ++r->times.preemptions;
}

void LoadRecorder::copied(Time, const engine::CopiedBlocks& blocks) {
  const std::lock_guard lock(mutex_);
  run_.to_ram += bytes_ * double(blocks.to_host);
  run_.to_gpu += bytes_ * double(blocks.from_host);
  run_.to_disk += bytes_ * double(blocks.to_disk);
  run_.from_disk += bytes_ * double(blocks.from_disk);
}

void LoadRecorder::awaited_copies(Time begin, Time end) {
  const std::lock_guard lock(mutex_);
  run_.copy_full += Seconds{std::chrono::duration<double>(end - begin).count()};
}

void LoadRecorder::lost_disk(const std::string& why) {
  const std::lock_guard lock(mutex_);
  disk_failure_ = why;
}

void LoadRecorder::token(CompletionId id, Time at) {
  const std::lock_guard lock(mutex_);
  Request* r = find(id);
  if (!r) return;
  if (r->last_token)
    run_.gaps.add(Seconds{std::chrono::duration<double>(at - *r->last_token).count()}, 1);
  else
    r->times.first_token = since_start(at);
  r->last_token = at;
  r->times.last_token = since_start(at);
  ++r->tokens;
}

void LoadRecorder::ended(CompletionId id, Time at, FinishReason reason) {
  const std::lock_guard lock(mutex_);
  Request* r = find(id);
  if (!r) return;
  pass(at);
  --alive_;
  r->is_whole = reason == FinishReason::kLength || reason == FinishReason::kStop;
  failed_ += reason == FinishReason::kFailed ? 1 : 0;
  run_.end = std::max(run_.end, since_start(at));
}

void LoadRecorder::stepped(const ServedStep& step) {
  const std::lock_guard lock(mutex_);
  pass(step.begin);
  running_ = step.running;
  blocks_used_ = step.blocks_used;
  pass(step.end);
  const Seconds took{std::chrono::duration<double>(step.end - step.begin).count()};
  ++run_.steps;
  run_.busy += took;
  run_.computed_tokens += step.tokens;
  if (step.has_prompts) run_.with_prompts += took;
  run_.peak_running = std::max(run_.peak_running, step.running);
  run_.peak_blocks = std::max(run_.peak_blocks, std::size_t(step.blocks_used));
  if (step.waiting == 0) return;
  if (step.only_loads)
    run_.copy_full += took;
  else if (step.is_full)
    run_.sequences_full += took;
  else if (step.lacks_cache)
    run_.cache_full += took;
  else
    run_.step_full += took;
}

ServingRun LoadRecorder::run() const {
  const std::lock_guard lock(mutex_);
  ServingRun out = run_;
  out.beyond_queue = refused_;
  out.copies_are_timed = false;
  std::vector<std::size_t> whole_before;  // by request, of those that have their whole answer
  for (const Request& r : requests_) {
    whole_before.push_back(out.load.size());
    if (!r.is_whole) continue;
    ServedRequest asked = r.asked;
    asked.output = r.tokens;
    const bool has_before = asked.continues && requests_[*asked.continues].is_whole;
    asked.continues = has_before ? std::optional(whole_before[*asked.continues]) : std::nullopt;
    if (!asked.continues) asked.shared = 0;
    out.load.push_back(asked);
    out.requests.push_back(r.times);
  }
  return out;
}

}  // namespace rigcast::validation
