#include "engine/backends/cpu/cpu_executor.hpp"

#include <algorithm>

#include "core/scenario/engine_sizes.hpp"
#include "engine/backends/cpu/sampling/choose_tokens.hpp"
#include "engine/model/model_bytes.hpp"

namespace rigcast::engine {
namespace {

// A sequence's state, and the one that is kept of it.
constexpr int kCurrent = 0, kKept = 1;

CpuOptions with_states(CpuOptions options) {
  options.states = 2;
  return options;
}

CpuOptions with_window_blocks(CpuOptions options, const ModelSpec& spec) {
  if (!options.window_blocks)
    options.window_blocks = window_ring_blocks(spec, options.ubatch, options.kv_block);
  return options;
}

}  // namespace

CpuExecutor::CpuExecutor(std::shared_ptr<const Model> model, const CpuOptions& options)
    : options_(with_window_blocks(options, model->spec)),
      ring_(model->spec, *options_.window_blocks, options_.kv_block),
      weights_(options.ram.charge(std::size_t(model_bytes(*model)), "weights")),
      team_(options.threads, ThreadTeam::kSpinTime, options.stop),
      layers_(std::move(model), with_states(options_)) {}

std::span<const float> CpuExecutor::forward(std::span<const std::int32_t> tokens, Logits which) {
  const TokenCount before = cached_;
  cache().reserve(before + TokenCount(tokens.size()));
  try {
    if (is_recurrent()) restore_state();
    const auto logits = steps(tokens, which);
    if (is_recurrent() && history_.append(tokens, cached_)) layers_.states().copy(kCurrent, kKept);
    return logits;
  } catch (...) {
    cached_ = before;  // also if restoring a state has failed
    truncate(before);
    throw;
  }
}

std::int32_t CpuExecutor::decode(std::int32_t token, Sampler& sampler) {
  const TokenCount before = cached_;
  const std::span<const float> logits = forward({&token, 1}, Logits::kLast);
  try {
    return sample(team_, {&sampler, logits}, cached_, recorder_);
  } catch (...) {
    truncate(before);
    throw;
  }
}

// Computes the tokens that the state has not seen, whose keys and values are in the cache.
void CpuExecutor::restore_state() {
  const TokenCount until = cached_;
  const auto begin = history_.begin_of(until);
  if (!begin) return;
  history_.lose();
  if (begin->kept) layers_.states().copy(kKept, kCurrent);
  cached_ = begin->tokens;
  steps(history_.tokens(cached_, until), Logits::kNone);
  history_.reach(until);
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
  ring_.write(cached_ + TokenCount(tokens.size()));
  history_.lose();
  team_.run([&](Worker& worker) {
    layers_.begin(worker, cached_, std::int64_t(tokens.size()));
    layers_.embed(worker, tokens);
    layers_.through(worker, 0, model().spec.layers);
    if (which != Logits::kNone) layers_.head(worker, which);
  });
  cached_ += TokenCount(tokens.size());
  history_.reach(cached_);
  return which == Logits::kNone ? std::span<const float>()
                                : std::span<const float>(layers_.logits());
}

void CpuExecutor::truncate(TokenCount tokens) {
  cached_ = ring_.truncate(std::min(cached_, tokens));
  cache().truncate(cached_);
  history_.truncate(cached_);
}

void CpuExecutor::fill(TokenCount tokens) {
  cache().reserve(cached_ + tokens);
  ring_.write(cached_ + tokens);
  team_.run([&](Worker& worker) {
    worker.parallel_for(tokens, 16, [&](std::int64_t begin, std::int64_t end) {
      layers_.attention().fill(cached_ + begin, cached_ + end, cached_ + tokens);
    });
  });
  if (cached_ == 0 && is_recurrent()) layers_.states().clear(kCurrent);
  cached_ += tokens;
  history_.fill(cached_);
}

}  // namespace rigcast::engine
