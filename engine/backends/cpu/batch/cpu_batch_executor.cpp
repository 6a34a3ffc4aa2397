#include "engine/backends/cpu/batch/cpu_batch_executor.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "core/base/error.hpp"
#include "core/scenario/engine_sizes.hpp"
#include "engine/model/model_bytes.hpp"

namespace rigcast::engine {
namespace {

// Both pools are one piece each, in which a layer's blocks are contiguous.
CpuOptions with_pool(CpuOptions options, const BatchLimits& limits) {
  options.kv_block = limits.block_tokens;
  options.kv_piece_blocks = limits.blocks;
  return options;
}

Allocator pool_memory(const CpuOptions& o) {
  return o.kv_memory ? o.kv_memory : o.ram.tracked("KV cache", make_large_pages);
}

// Rows that fill the gaps between the groups of experts' tokens.
double expert_gap_bytes(const ModelSpec& m, const BatchLimits& limits) {
  if (!m.moe) return 0;
  constexpr double kFloat = 4, kInput = 6;
  const double jobs =
      std::min(double(m.moe->experts), double(limits.step_tokens) * double(m.moe->experts_used));
  const double middle = double(m.moe->expert_ffn), hidden = double(m.hidden);
  return jobs * double(cpu::FloatBatch::kGroup - 1) *
         (kFloat * (2 * middle + hidden) + kInput * (hidden + middle));
}

// Beyond what layers charge for the rows of a step.
double further_buffer_bytes(const Model& model, const BatchLimits& limits) {
  const double rows = double(limits.step_sequences - 1);  // the layers count the logits of one
  return rows * double(model.spec.vocabulary) * sizeof(float) +
         expert_gap_bytes(model.spec, limits);
}

bool any_nan(std::span<const float> logits) {
  bool any = false;
  for (const float logit : logits) any |= logit != logit;  // one pass of vectors, no exit
  return any;
}

}  // namespace

double cpu_block_bytes(const Model& model, KvTypes types, TokenCount block_tokens) {
  return double(KvCache(model.spec, types, block_tokens).block_bytes());
}

double cpu_batch_buffer_bytes(const Model& model, const BatchLimits& limits) {
  return cpu_buffer_bytes(model.spec, double(limits.step_tokens)) +
         further_buffer_bytes(model, limits);
}

CpuBatchExecutor::CpuBatchExecutor(std::shared_ptr<const Model> model, const CpuOptions& options,
                                   const BatchLimits& limits)
    : ram_(options.ram),
      limits_(limits),
      weights_(ram_.charge(std::size_t(model_bytes(*model)), "weights")),
      buffers_(ram_.charge(std::size_t(further_buffer_bytes(*model, limits)), "activations")),
      team_(options.threads, ThreadTeam::kSpinTime, options.stop),
      layers_(std::move(model), with_pool(options, limits)),
      host_pool_(this->model().spec, options.kv_types, limits.block_tokens,
                 all_layers(this->model().spec), pool_memory(options),
                 std::max(1, limits.host_blocks)) {
  RIGCAST_ASSERT(limits.blocks >= 1 && limits.host_blocks >= 0 && limits.block_tokens >= 1 &&
                 limits.step_tokens >= 1 && limits.step_sequences >= 1);
  layers_.reserve(limits.step_tokens);
  layers_.cache().reserve(limits.blocks * limits.block_tokens);
  host_pool_.reserve(limits.host_blocks * limits.block_tokens);
}

void CpuBatchExecutor::check(const SequenceStep& s) const {
  RIGCAST_ASSERT(!s.tokens.empty() && s.cached >= 0);
  const TokenCount end = s.cached + TokenCount(s.tokens.size());
  RIGCAST_ASSERT(TokenCount(s.blocks.size()) * limits_.block_tokens >= end);
  const auto exists = [&](int block) { return block >= 0 && block < limits_.blocks; };
  RIGCAST_ASSERT(std::ranges::all_of(s.blocks, exists));
  const auto known = [&](std::int32_t id) { return id >= 0 && id < model().spec.vocabulary; };
  RIGCAST_ASSERT(std::ranges::all_of(s.tokens, known));
}

// The rows of the step: those of one sequence are neighbours.
void CpuBatchExecutor::place_rows(std::span<const SequenceStep> sequences) {
  RIGCAST_ASSERT(!sequences.empty() && int(sequences.size()) <= limits_.step_sequences);
  sequences_.clear();
  ids_.clear();
  last_rows_.clear();
  for (const SequenceStep& s : sequences) {
    check(s);
    const auto first = std::int64_t(ids_.size()), tokens = std::int64_t(s.tokens.size());
    sequences_.push_back({s.cached, first, tokens, BlockTable(s.blocks)});
    ids_.insert(ids_.end(), s.tokens.begin(), s.tokens.end());
  }
  RIGCAST_ASSERT(TokenCount(ids_.size()) <= limits_.step_tokens);
}

void CpuBatchExecutor::compute() {
  layers_.record_into(recorder_);
  team_.run([&](Worker& worker) {
    layers_.begin(worker, sequences_);
    layers_.embed(worker, ids_);
    layers_.through(worker, 0, model().spec.layers);
    if (!last_rows_.empty()) layers_.head(worker, last_rows_);
  });
}

std::span<const float> CpuBatchExecutor::logits(std::span<const SequenceStep> sequences) {
  place_rows(sequences);
  for (const StepSequence& s : sequences_) last_rows_.push_back(s.first + s.tokens - 1);
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
    last_rows_.push_back(sequences_[i].first + sequences_[i].tokens - 1);
  }
  chosen_.assign(sequences.size(), BatchExecutor::kNoToken);
  compute();
  if (!sampled_.empty()) sample_all(sequences);
  return chosen_;
}

void CpuBatchExecutor::sample_one(const SequenceStep& sequence, std::size_t row, std::int32_t& to) {
  const auto width = std::size_t(model().spec.vocabulary);
  const auto logits = std::span<const float>(layers_.logits()).subspan(row * width, width);
  to = any_nan(logits) ? BatchExecutor::kNotNumbers : sequence.sampler->next(logits);
}

// Every member of the team samples some sequences. If one fails, or is asked to stop, no sampler
// has drawn: the step may be repeated.
void CpuBatchExecutor::sample_all(std::span<const SequenceStep> sequences) {
  const double since = recorder_ ? recorder_->now() : 0;
  drawn_.clear();
  for (const std::size_t i : sampled_) drawn_.push_back(sequences[i].sampler->drawn());
  try {
    team_.run([&](Worker& worker) {
      worker.parallel_for_nowait(std::int64_t(sampled_.size()), 1,
                                 [&](std::int64_t row, std::int64_t) {
                                   const std::size_t i = sampled_[std::size_t(row)];
                                   sample_one(sequences[i], std::size_t(row), chosen_[i]);
                                 });
    });
  } catch (...) {
    for (std::size_t row = 0; row < sampled_.size(); ++row)
      sequences[sampled_[row]].sampler->rewind(drawn_[row]);
    throw;
  }
  if (recorder_) recorder_->add(ActivityKind::kSample, -1, sequences_[0].cached, since, 0);
}

void CpuBatchExecutor::fill(std::span<const int> blocks, TokenCount tokens) {
  team_.run([&](Worker& worker) {
    worker.parallel_for(tokens, 16, [&](std::int64_t begin, std::int64_t end) {
      layers_.attention().fill(begin, end, BlockTable(blocks));
    });
  });
}

// A layer's part of a block at a time.
void CpuBatchExecutor::copy(std::span<const BlockCopy> copies, const KvCache& from,
                            const KvCache& to) {
  const int layers = model().spec.layers;
  team_.run([&](Worker& worker) {
    worker.parallel_for_nowait(std::int64_t(copies.size()) * layers, 8,
                               [&](std::int64_t begin, std::int64_t end) {
                                 for (std::int64_t i = begin; i < end; ++i) {
                                   const BlockCopy& c = copies[std::size_t(i / layers)];
                                   const int layer = int(i % layers);
                                   std::memcpy(to.block(layer, c.to), from.block(layer, c.from),
                                               std::size_t(from.layer_bytes(layer)));
                                 }
                               });
  });
  const double bytes = double(copies.size()) * double(from.block_bytes());
  copied_ += {0, bytes, bytes};
}

void CpuBatchExecutor::move_out(std::span<const BlockCopy> copies) {
  for (const BlockCopy& c : copies)
    RIGCAST_ASSERT(c.from >= 0 && c.from < limits_.blocks && c.to >= 0 &&
                   c.to < limits_.host_blocks);
  copy(copies, layers_.cache(), host_pool_);
}

void CpuBatchExecutor::move_in(std::span<const BlockCopy> copies) {
  for (const BlockCopy& c : copies)
    RIGCAST_ASSERT(c.from >= 0 && c.from < limits_.host_blocks && c.to >= 0 &&
                   c.to < limits_.blocks);
  copy(copies, host_pool_, layers_.cache());
}

MovedBytes CpuBatchExecutor::take_bytes() {
  MovedBytes bytes = layers_.take_bytes();
  bytes += std::exchange(copied_, {});
  return bytes;
}

}  // namespace rigcast::engine
