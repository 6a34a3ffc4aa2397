#include "engine/backends/cpu/batch/cpu_batch_executor.hpp"

#include <algorithm>
#include <utility>

#include "core/base/error.hpp"
#include "engine/backends/cpu/batch/batch_bytes.hpp"
#include "engine/backends/cpu/sampling/sample_rows.hpp"
#include "engine/model/model_bytes.hpp"

namespace rigcast::engine {
namespace {

CpuOptions with_blocks(CpuOptions options, const BatchLimits& limits) {
  options.kv_block = limits.block_tokens;
  options.states = limits.step_sequences + limits.checkpoints;
  options.window_blocks = limits.window_blocks;
  return options;
}

}  // namespace

CpuBatchExecutor::CpuBatchExecutor(std::shared_ptr<const Model> model, const CpuOptions& options,
                                   const BatchLimits& limits)
    : ram_(options.ram),
      limits_(limits),
      weights_(ram_.charge(std::size_t(model_bytes(*model)), "weights")),
      buffers_(ram_.charge(std::size_t(further_buffer_bytes(*model, limits)), "activations")),
      team_(options.threads, ThreadTeam::kSpinTime, options.stop),
      layers_(std::move(model), with_blocks(options, limits)),
      blocks_(layers_.cache(), limits),
      lost_(limits.step_sequences) {
  RIGCAST_ASSERT(limits.step_tokens >= 1 && limits.step_sequences >= 1);
  layers_.reserve(limits.step_tokens);
}

void CpuBatchExecutor::check(const SequenceStep& s) const {
  RIGCAST_ASSERT(!s.tokens.empty() && s.cached >= 0);
  const TokenCount end = s.cached + TokenCount(s.tokens.size());
  RIGCAST_ASSERT(TokenCount(s.blocks.size()) * limits_.block_tokens >= end);
  const auto exists = [&](int block) { return block >= 0 && block < limits_.blocks; };
  RIGCAST_ASSERT(std::ranges::all_of(s.blocks, exists));
  if (limits_.window_blocks > 0) {
    RIGCAST_ASSERT(TokenCount(s.window_blocks.size()) * limits_.block_tokens >= end);
    const auto in_pool = [&](int block) { return block >= 0 && block < limits_.window_blocks; };
    RIGCAST_ASSERT(std::ranges::all_of(s.window_blocks, in_pool));
  }
  const auto known = [&](std::int32_t id) { return id >= 0 && id < model().spec.vocabulary; };
  RIGCAST_ASSERT(std::ranges::all_of(s.tokens, known));
  RIGCAST_ASSERT(s.state >= 0 && s.state < limits_.step_sequences);
}

void CpuBatchExecutor::place_rows(std::span<const SequenceStep> sequences) {
  RIGCAST_ASSERT(!sequences.empty() && int(sequences.size()) <= limits_.step_sequences);
  rows_.clear();
  last_rows_.clear();
  for (const SequenceStep& s : sequences) {
    check(s);
    rows_.add(s);
  }
  RIGCAST_ASSERT(TokenCount(rows_.ids.size()) <= limits_.step_tokens);
}

void CpuBatchExecutor::compute() {
  if (!layers_.states().empty()) lost_.begin(rows_.sequences);
  layers_.record_into(recorder_);
  team_.run([&](Worker& worker) {
    layers_.begin(worker, rows_.sequences);
    layers_.embed(worker, rows_.ids);
    layers_.through(worker, 0, model().spec.layers);
    if (!last_rows_.empty()) layers_.head(worker, last_rows_);
  });
  lost_.end(rows_.sequences);
}

std::span<const float> CpuBatchExecutor::logits(std::span<const SequenceStep> sequences) {
  place_rows(sequences);
  for (std::size_t i = 0; i < sequences.size(); ++i) last_rows_.push_back(rows_.last_row(i));
  compute();
  return std::span<const float>(layers_.logits())
      .first(sequences.size() * std::size_t(model().spec.vocabulary));
}

std::span<const std::int32_t> CpuBatchExecutor::step(std::span<const SequenceStep> sequences) {
  place_rows(sequences);
  sampled_.clear();
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    if (sequences[i].sampler == nullptr) continue;
    sampled_.push_back(i);
    last_rows_.push_back(rows_.last_row(i));
  }
  chosen_.assign(sequences.size(), BatchExecutor::kNoToken);
  compute();
  if (!sampled_.empty()) sample_all(sequences);
  return chosen_;
}

void CpuBatchExecutor::sample_all(std::span<const SequenceStep> sequences) {
  const double since = recorder_ ? recorder_->now() : 0;
  sample_rows(team_, sequences, {sampled_, layers_.logits(), std::size_t(model().spec.vocabulary)},
              chosen_);
  if (recorder_) recorder_->add(ActivityKind::kSample, -1, sequences.front().cached, since, 0);
}

void CpuBatchExecutor::fill(std::span<const int> blocks, TokenCount tokens) {
  RIGCAST_ASSERT(limits_.window_blocks == 0);
  team_.run([&](Worker& worker) {
    worker.parallel_for(tokens, 16, [&](std::int64_t begin, std::int64_t end) {
      layers_.attention().fill(begin, end, tokens, BlockTable(blocks));
    });
  });
}

void CpuBatchExecutor::copy_state(int from, int to) {
  const int states = limits_.step_sequences + limits_.checkpoints;
  RIGCAST_ASSERT(from >= 0 && from < states && to >= 0 && to < states && from != to);
  if (layers_.states().empty()) return;
  lost_.copy(from, to);
  layers_.states().copy(from, to, team_);
  const auto bytes = double(layers_.states().bytes());
  copied_ += {0, bytes, bytes};
}

MovedBytes CpuBatchExecutor::take_bytes() {
  MovedBytes bytes = layers_.take_bytes();
  bytes += std::exchange(copied_, {});
  bytes += blocks_.take_bytes();
  return bytes;
}

}  // namespace rigcast::engine
