#include "engine/serve/serving_loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "core/base/stop_flag.hpp"

namespace rigcast::engine {
namespace {

std::string failure_text(const std::string& what, const char* why) {
  return fmt::format("{} failed: {}", what, why);
}

constexpr const char* kNotNumbersText =
    "the model gave a value that is not a number: its weights are damaged, or numbers grew past "
    "what they are computed in";

// Blocks that others find are of no use without the state of recurrent layers behind them, nor
// without the window of layers that have no more than that.
SchedulerPolicy policy_for(SchedulerPolicy policy, const BatchLimits& limits,
                           const ModelSpec& model) {
  policy.prefix_cache = policy.prefix_cache &&
                        (limits.checkpoints > 0 || !(model.recurrent || limits.window_blocks > 0));
  return policy;
}

bool is_decode(const StepPlan::Part& part) {
  return part.tokens == 1 && part.sequence->generated() > 0;
}

}  // namespace

SchedulerPolicy engine_policy(const BatchLimits& limits) {
  SchedulerPolicy policy;
  policy.shares_in_step = false;
  policy.block_tokens = limits.block_tokens;
  policy.step_tokens = limits.step_tokens;
  policy.sequences = std::size_t(limits.step_sequences);
  policy.restore = KvRestore::kAuto;
  return policy;
}

Result<std::unique_ptr<ServingLoop>> ServingLoop::start(BatchExecutor& executor,
                                                        const ServingOptions& options,
                                                        ServingObserver* observer) {
  if (auto error = Scheduler::check(options.policy)) return *error;
  const BatchLimits limits = executor.limits();
  const TokenCount room = TokenCount(limits.blocks) * limits.block_tokens;
  const TokenCount context =
      options.context > 0 ? options.context : std::min(room, limits.sequence_tokens);
  if (context > limits.sequence_tokens)
    return bad_input(fmt::format("sequences have up to {} tokens here, a request may have {}",
                                 limits.sequence_tokens, context),
                     "a shorter --context");
  if (context > room || room < 2)
    return Error{ErrorKind::kDoesNotFit,
                 fmt::format("the KV cache has room for {} tokens, a request may have {}", room,
                             std::max<TokenCount>(context, 2)),
                 "a shorter --context, or a smaller --kv-type"};
  return std::unique_ptr<ServingLoop>(new ServingLoop(executor, options, context, observer));
}

ServingLoop::ServingLoop(BatchExecutor& executor, const ServingOptions& options, TokenCount context,
                         ServingObserver* observer)
    : executor_(executor),
      limits_(executor.limits()),
      policy_(policy_for(options.policy, limits_, executor.model().spec)),
      context_(context),
      vocabulary_(executor.model().spec.vocabulary),
      observer_(observer ? *observer : none_),
      block_bytes_{double(executor.block_bytes())},
      rates_(options.rates),
      pool_(limits_, policy_.prefix_cache, options.disk ? options.disk->blocks() : 0),
      scheduler_(policy_, limits_, pool_, rates_, block_bytes_),
      states_(limits_.step_sequences) {
  publish();
  if (options.disk && policy_.prefix_cache)
    disk_ = std::make_unique<DiskTier>(*options.disk, executor_, [this] {
      const std::lock_guard lock(mutex_);
      disk_has_results_ = true;
      changed_.notify_one();
    });
  thread_ = std::thread([this] { serve(); });
}

// The tier's thread uses what is destroyed before it otherwise.
ServingLoop::~ServingLoop() {
  stop();
  disk_.reset();
}

Result<CompletionId> ServingLoop::submit(CompletionRequest request) {
  const TokenCount prompt = TokenCount(request.prompt.size());
  if (prompt < 1) return bad_input("a prompt without tokens");
  if (request.max_tokens < 1) return bad_input("an answer has at least one token");
  if (prompt > context_ || request.max_tokens > context_ - prompt)
    return bad_input(fmt::format("{} tokens of prompt and {} of answer exceed the context of {}",
                                 prompt, request.max_tokens, context_));
  for (const std::int32_t token : request.prompt)
    if (token < 0 || token >= vocabulary_)
      return bad_input(fmt::format("token {} is not in the vocabulary of {}", token, vocabulary_));
  // Whoever may have to give up its blocks computes its answer anew, too.
  const TokenCount at_once = prompt + request.max_tokens - 1;
  if (!policy_.chunked && at_once > std::min(policy_.step_tokens, limits_.step_tokens))
    return bad_input(
        fmt::format("{} tokens to compute at once, more than a step has, and prompts "
                    "are not cut",
                    at_once));
  const Clock::time_point now = Clock::now();
  const std::lock_guard lock(mutex_);
  if (stops_) return Error{ErrorKind::kMachine, "the server stops"};
  const std::size_t waiting = arrived_.size() + std::size_t(state_.waiting);
  // Those that come at once to a server with room to run them wait for no longer than a step.
  const std::size_t places =
      policy_.sequences - std::min(policy_.sequences, std::size_t(state_.running));
  if (policy_.max_waiting > 0 && waiting >= policy_.max_waiting + places) {
    ++state_.refused;
    return Error{ErrorKind::kDoesNotFit,
                 fmt::format("{} requests wait already, the most that may", waiting)};
  }
  const CompletionId id = last_id_ + 1;
  arrived_.push_back({std::make_unique<Sequence>(id, std::move(request)), now});
  last_id_ = id;
  changed_.notify_one();
  return id;
}

void ServingLoop::end_early(CompletionId id, FinishReason reason) {
  const std::lock_guard lock(mutex_);
  if (stops_) return;
  ended_early_.emplace_back(id, reason);
  changed_.notify_one();
}

CompletionsState ServingLoop::state() const {
  const std::lock_guard lock(mutex_);
  CompletionsState state = state_;
  state.waiting += int(arrived_.size());
  return state;
}

void ServingLoop::stop() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

std::string ServingLoop::leaks() const {
  if (!sequences_.empty()) return fmt::format("{} requests have not ended", sequences_.size());
  if (scheduler_.running() + scheduler_.waiting() > 0) return "requests that have ended still run";
  return pool_.contradiction({});
}

void ServingLoop::serve() {
  while (receive()) compute();
  cancel_all();
  publish();
}

// Waits for something to do. False: the loop ends.
bool ServingLoop::receive() {
  std::vector<Arrived> arrived;
  std::vector<std::pair<CompletionId, FinishReason>> ended_early;
  const Clock::time_point begin = Clock::now();
  const bool awaited_disk = awaits_disk_;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return stops_ || !arrived_.empty() || !ended_early_.empty() || disk_has_results_ ||
             (!sequences_.empty() && !awaits_disk_);
    });
    if (stops_) return false;
    disk_has_results_ = false;
    arrived.swap(arrived_);
    ended_early.swap(ended_early_);
    state_.waiting += int(arrived.size());  // until the next publish()
  }
  if (awaited_disk) observer_.awaited_copies(begin, Clock::now());
  if (disk_) receive_from_disk();
  for (auto& [sequence, at] : arrived) {
    const CompletionId id = sequence->id;
    observer_.queued(id, at, Clock::now());
    scheduler_.arrive(*sequence);
    sequences_.emplace(id, std::move(sequence));
  }
  for (const auto& [id, reason] : ended_early)
    if (const auto own = sequences_.find(id); own != sequences_.end()) end(*own->second, reason);
  return true;
}

// What is back from disk, or written there. After a failure nothing there is found any more.
void ServingLoop::receive_from_disk() {
  const DiskTier::Results results = disk_->take_results();
  const Clock::time_point now = Clock::now();
  CopiedBlocks copied;
  for (const int block : results.written) pool_.written(block);
  copied.to_disk = results.written.size();
  if (!results.failure.empty()) {
    pool_.drop_disk();
    observer_.lost_disk(results.failure);
  }
  for (const DiskTier::Read& read : results.reads) {
    restoring_.erase(read.id);
    copied.from_disk += read.blocks;
    rates_.copied(KvTier::kDisk, block_bytes_ * double(read.blocks), read.took);
    scheduler_.end_disk_load(*sequences_.at(read.id), !read.failed);
  }
  if (copied.to_disk + copied.from_disk > 0) observer_.copied(now, copied);
}

// Decides on a step, and computes it.
void ServingLoop::compute() try {
  const StepPlan& plan = scheduler_.plan();
  note(plan, Clock::now());
  publish();
  load(plan);
  // The plan is gone when a step has ended sequences.
  const bool has_begun = !plan.parts.empty() || !plan.loads.empty() || !plan.preempted.empty();
  if (!plan.parts.empty()) step(plan);
  awaits_disk_ = !has_begun && !restoring_.empty();
  publish();
} catch (const Interrupted&) {
  cancel_all();
}

void ServingLoop::note(const StepPlan& plan, Clock::time_point now) {
  for (const auto& [sequence, lost] : plan.preempted) {
    ++counts_.preempted;
    states_.release(sequence->state);
    observer_.preempted(sequence->id, now, lost);
  }
  for (Sequence* sequence : plan.admitted) {
    Sequence& s = *sequence;
    observer_.admitted(s.id, now,
                       {s.found_here, s.found_on_host, s.found_on_disk, s.left_in_tiers});
    if (std::exchange(s.was_scheduled, true)) continue;
    s.cached = s.found_here + s.found_on_host + s.found_on_disk;
    counts_.prompt_tokens += std::uint64_t(s.prompt);
    counts_.cached_prompt_tokens += std::uint64_t(s.cached);
    counts_.disk_prompt_tokens += std::uint64_t(s.found_on_disk);
  }
}

// Begins copies of each sequence on its own, so that one that fails is nobody else's matter.
void ServingLoop::load(const StepPlan& plan) {
  for (const auto& [sequence, copies] : plan.loads) {
    try {
      load(*sequence, copies);
    } catch (const Interrupted&) {
      throw;
    } catch (const std::exception& error) {
      end(*sequence, FinishReason::kFailed,
          failure_text("the copy of its keys and values from RAM", error.what()));
    }
  }
}

// Copies are waited for where their rate decides about others; the next step would wait for them
// anyway, as it is queued behind them.
void ServingLoop::load(const Sequence& sequence, const KvPool::Restored& copies) {
  const std::size_t blocks = copies.from_host.size();
  const Clock::time_point begin = Clock::now();
  if (blocks > 0) executor_.move_in(copies.from_host);
  // What is written to the pool on another thread comes after all that was queued before.
  if (policy_.restore == KvRestore::kAuto || !copies.from_disk.empty()) executor_.finish_copies();
  if (blocks > 0) {
    const Clock::time_point now = Clock::now();
    const Seconds took{std::chrono::duration<double>(now - begin).count()};
    rates_.copied(KvTier::kHost, block_bytes_ * double(blocks), took);
    observer_.copied(now, {.from_host = blocks});
  }
  if (copies.from_disk.empty()) return;
  disk_->read(sequence.id, copies.from_disk);
  restoring_.insert(sequence.id);
}

void ServingLoop::step(const StepPlan& plan) {
  parts_.clear();
  ServedStep served;
  TokenCount of_prompts = 0;
  for (const StepPlan::Part& part : plan.parts) {
    Sequence& s = *part.sequence;
    states_.take(s.state);
    const bool ends = s.computed + part.tokens == s.known();
    parts_.push_back(
        {std::span(s.tokens).subspan(std::size_t(s.computed), std::size_t(part.tokens)), s.computed,
         s.own.blocks, ends ? &s.sampler : nullptr, s.state, s.own.window_blocks});
    served.tokens += part.tokens;
    of_prompts += is_decode(part) ? 0 : part.tokens;
  }
  served.has_prompts = of_prompts > 0;
  served.running = scheduler_.running();
  served.waiting = scheduler_.waiting();
  served.blocks_used = pool_.blocks() - pool_.free_blocks();
  served.is_full = scheduler_.is_full();
  served.lacks_cache = scheduler_.lacks_cache();
  served.only_loads = scheduler_.only_loads();
  served.begin = Clock::now();
  std::span<const std::int32_t> next;
  try {
    for (const StepPlan::Part& part : plan.parts) restore_state(*part.sequence);
    next = executor_.step(parts_);
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& error) {
    // Nothing was computed. Memory is short because of the largest part, if of any.
    const auto most = std::ranges::max_element(plan.parts, {}, &StepPlan::Part::tokens);
    if (executor_.model().spec.recurrent || pool_.keeps_states())
      restart_others(plan, *most->sequence);
    return end(
        *most->sequence, FinishReason::kFailed,
        failure_text(fmt::format("a step with {} of its tokens", most->tokens), error.what()));
  }
  served.end = Clock::now();
  ++counts_.steps;
  // Of prompts alone, or nearly so: what shorter ones take is mostly what any step takes.
  if (2 * of_prompts >= std::min(policy_.step_tokens, limits_.step_tokens))
    rates_.computed(of_prompts,
                    Seconds{std::chrono::duration<double>(served.end - served.begin).count()});
  observer_.stepped(served);
  advance(plan, next, served.end);
}

void ServingLoop::advance(const StepPlan& plan, std::span<const std::int32_t> next,
                          Clock::time_point now) {
  // Tokens go to their clients before anything else is done.
  finished_.assign(plan.parts.size(), std::nullopt);
  for (std::size_t i = 0; i < plan.parts.size(); ++i) {
    Sequence& s = *plan.parts[i].sequence;
    if (next[i] == BatchExecutor::kNotNumbers) {
      finished_[i] = FinishReason::kFailed;
      continue;  // of what was computed nothing is offered to others
    }
    s.computed += plan.parts[i].tokens;
    if (s.computed == s.known()) finished_[i] = take_token(s, next[i], now);
  }
  for (std::size_t i = 0; i < plan.parts.size(); ++i) {
    Sequence& s = *plan.parts[i].sequence;
    std::string failure = offer(s);
    if (next[i] != BatchExecutor::kNotNumbers) {
      pool_.leave_windows(s.own, s.computed);
      keep_state(s);
    }
    if (finished_[i] == FinishReason::kFailed)
      end(s, FinishReason::kFailed, kNotNumbersText);
    else if (finished_[i])
      end(s, *finished_[i]);
    else if (!failure.empty())
      end(s, FinishReason::kFailed, std::move(failure));
  }
}

// Why its answer has ended; nullopt: it goes on.
std::optional<FinishReason> ServingLoop::take_token(Sequence& s, std::int32_t token,
                                                    Clock::time_point now) {
  if (std::ranges::find(s.request.stop_ids, token) != s.request.stop_ids.end())
    return FinishReason::kStop;
  s.tokens.push_back(token);
  ++counts_.output_tokens;
  observer_.token(s.id, now);
  if (s.request.on_tokens) s.request.on_tokens(std::span(s.tokens).last(1));
  if (s.generated() >= s.request.max_tokens) return FinishReason::kLength;
  return std::nullopt;
}

// Others find its full blocks from now on. Returns why they are not in the host's pool; empty: they
// are.
std::string ServingLoop::offer(Sequence& sequence) {
  const KvPool::Kept copies = pool_.hold(sequence.own, sequence.computed_tokens());
  if (!copies.to_disk.empty()) copy_to_disk(copies.to_disk);
  return copies.to_host.empty() ? std::string() : copy_to_host(copies.to_host);
}

// The first of them is the first again.
void ServingLoop::restart_others(const StepPlan& plan, const Sequence& failed) {
  for (auto part = plan.parts.rbegin(); part != plan.parts.rend(); ++part) {
    Sequence& s = *part->sequence;
    if (&s == &failed) continue;
    ++counts_.preempted;
    observer_.preempted(s.id, Clock::now(), s.computed);
    states_.release(s.state);
    scheduler_.restart(s);
  }
}

// Before its first step, if what was found of it ends with a checkpoint.
void ServingLoop::restore_state(Sequence& sequence) {
  if (sequence.own.checkpoint < 0) return;
  executor_.copy_state(limits_.step_sequences + sequence.own.checkpoint, sequence.state);
  pool_.restored(sequence.own);
}

// After a step that ended at one of its checkpoints. What cannot be copied is not kept.
void ServingLoop::keep_state(Sequence& sequence) {
  if (!pool_.keeps_states() || !sequence.is_at_checkpoint(pool_.block_tokens())) return;
  const auto to = pool_.take_checkpoint(sequence.own, sequence.generated() > 0);
  if (!to) return;
  try {
    executor_.copy_state(sequence.state, limits_.step_sequences + *to);
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception&) {
    pool_.forget_checkpoint(*to);
  }
}

std::string ServingLoop::copy_to_host(std::span<const BlockCopy> copies) {
  try {
    executor_.move_out(copies);
    observer_.copied(Clock::now(), {.to_host = copies.size()});
  } catch (const Interrupted&) {
    pool_.forget_host_copies(copies);
    throw;
  } catch (const std::exception& error) {
    pool_.forget_host_copies(copies);
    return failure_text("the copy of its keys and values to RAM", error.what());
  }
  return {};
}

// What finds no buffer, or cannot be read of the pool, is not kept: a GPU that fails for longer
// fails the next step, too.
void ServingLoop::copy_to_disk(std::span<const BlockCopy> copies) {
  std::size_t kept = 0;
  try {
    kept = disk_->write(copies);
  } catch (const std::exception&) {
  }
  pool_.forget_disk_copies(copies.subspan(kept));
}

void ServingLoop::end(Sequence& sequence, FinishReason reason, std::string error) {
  // Nothing may be written to its blocks when others take them.
  if (restoring_.erase(sequence.id) > 0) disk_->cancel(sequence.id);
  scheduler_.remove(sequence);
  states_.release(sequence.state);
  const auto own = sequences_.extract(sequence.id);
  switch (reason) {
    case FinishReason::kStop:
    case FinishReason::kLength: ++counts_.completed; break;
    case FinishReason::kCancelled: ++counts_.cancelled; break;
    case FinishReason::kFailed: ++counts_.failed; break;
  }
  observer_.ended(sequence.id, Clock::now(), reason);
  if (!sequence.request.on_end) return;
  sequence.request.on_end(
      {reason, sequence.prompt, sequence.cached, sequence.generated(), std::move(error)});
}

void ServingLoop::cancel_all() {
  std::vector<Arrived> arrived;
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
    arrived.swap(arrived_);
  }
  for (auto& [sequence, at] : arrived) {
    const CompletionId id = sequence->id;
    observer_.queued(id, at, Clock::now());
    sequences_.emplace(id, std::move(sequence));
  }
  while (!sequences_.empty()) end(*sequences_.begin()->second, FinishReason::kCancelled);
}

void ServingLoop::publish() {
  counts_.running = int(scheduler_.running());
  counts_.waiting = int(scheduler_.waiting());
  counts_.blocks = pool_.blocks();
  counts_.blocks_used = pool_.blocks() - pool_.free_blocks();
  counts_.disk_writes = pool_.being_written();
  const std::lock_guard lock(mutex_);
  const std::uint64_t refused = state_.refused;
  state_ = counts_;
  state_.refused = refused;
}

}  // namespace rigcast::engine
