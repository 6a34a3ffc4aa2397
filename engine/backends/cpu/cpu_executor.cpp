#include "engine/backends/cpu/cpu_executor.hpp"

#include <algorithm>

#include "engine/model/model_bytes.hpp"

namespace rigcast::engine {
namespace {

// A sequence's state, and the one that is kept of it.
constexpr int kCurrent = 0, kKept = 1;

CpuOptions with_states(CpuOptions options) {
  options.states = 2;
  return options;
}

}  // namespace

CpuExecutor::CpuExecutor(std::shared_ptr<const Model> model, const CpuOptions& options)
    : options_(options),
      weights_(options.ram.charge(std::size_t(model_bytes(*model)), "weights")),
      team_(options.threads, ThreadTeam::kSpinTime, options.stop),
      layers_(std::move(model), with_states(options)) {}

std::span<const float> CpuExecutor::forward(std::span<const std::int32_t> tokens, Logits which) {
  const TokenCount before = cached_;
  cache().reserve(before + TokenCount(tokens.size()));
  try {
    if (is_recurrent()) restore_state();
    const auto logits = steps(tokens, which);
    if (is_recurrent()) keep_state(tokens);
    return logits;
  } catch (...) {
    cached_ = before;  // also if restoring a state has failed
    truncate(before);
    throw;
  }
}

// Computes the tokens that the state has not seen, whose keys and values are in the cache. States
// of random tokens are as good as any.
void CpuExecutor::restore_state() {
  const TokenCount until = cached_;
  if (state_at_ == until) return;
  if (filled_ > 0) {
    state_at_ = until;
    return;
  }
  const bool is_kept = kept_at_ >= 0 && kept_at_ <= until;
  if (is_kept) layers_.states().copy(kKept, kCurrent);
  state_at_ = cached_ = is_kept ? kept_at_ : 0;
  const std::vector<std::int32_t> all = history_;
  steps(std::span(all).subspan(std::size_t(cached_), std::size_t(until - cached_)), Logits::kNone);
}

void CpuExecutor::keep_state(std::span<const std::int32_t> tokens) {
  history_.insert(history_.end(), tokens.begin(), tokens.end());
  if (tokens.size() == 1) return;
  layers_.states().copy(kCurrent, kKept);
  kept_at_ = cached_;
}

std::span<const float> CpuExecutor::steps(std::span<const std::int32_t> tokens, Logits which) {
  const TokenCount count = TokenCount(tokens.size());
  std::vector<float> all;
  std::span<const float> logits;
  for (TokenCount done = 0; done < count;) {
    const TokenCount now = std::min(options_.ubatch, count - done);
    const bool last = done + now == count;
    const Logits own = which == Logits::kLast && !last ? Logits::kNone : which;
    logits = step(tokens.subspan(std::size_t(done), std::size_t(now)), own);
    if (which == Logits::kAll) all.insert(all.end(), logits.begin(), logits.end());
    done += now;
  }
  if (which != Logits::kAll) return logits;
  logits_ = std::move(all);
  return logits_;
}

std::span<const float> CpuExecutor::step(std::span<const std::int32_t> tokens, Logits which) {
  layers_.record_into(recorder_);
  state_at_ = -1;
  team_.run([&](Worker& worker) {
    layers_.begin(worker, cached_, std::int64_t(tokens.size()));
    layers_.embed(worker, tokens);
    layers_.through(worker, 0, model().spec.layers);
    if (which != Logits::kNone) layers_.head(worker, which);
  });
  cached_ += TokenCount(tokens.size());
  state_at_ = cached_;
  return which == Logits::kNone ? std::span<const float>()
                                : std::span<const float>(layers_.logits());
}

void CpuExecutor::truncate(TokenCount tokens) {
  cached_ = std::min(cached_, tokens);
  cache().truncate(cached_);
  if (!is_recurrent()) return;
  if (kept_at_ > cached_) kept_at_ = -1;
  filled_ = std::min(filled_, cached_);
  history_.resize(std::min(history_.size(), std::size_t(cached_ - filled_)));
}

void CpuExecutor::fill(TokenCount tokens) {
  cache().reserve(cached_ + tokens);
  team_.run([&](Worker& worker) {
    worker.parallel_for(tokens, 16, [&](std::int64_t begin, std::int64_t end) {
      layers_.attention().fill(cached_ + begin, cached_ + end);
    });
  });
  if (cached_ == 0 && is_recurrent()) layers_.states().clear(kCurrent);
  cached_ += tokens;
  if (is_recurrent()) filled_ = state_at_ = cached_;
  history_.clear();
}

}  // namespace rigcast::engine
