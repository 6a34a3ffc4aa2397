#include "engine/backends/cuda/batch/host_batch.cuh"

#include <algorithm>

#include "core/scenario/engine_sizes.hpp"
#include "engine/backends/cpu/batch/batch_bytes.hpp"
#include "engine/backends/cpu/sampling/sample_rows.hpp"

namespace rigcast::engine::cuda {
namespace {

double further_bytes(HostOffload& host, const BatchLimits& limits) {
  const HostPlacement& parts = host.side.parts();
  const Model& model = host.side.layers().model();
  CpuBatchParts own{parts.head(), false};
  for (int layer = 0; layer < model.spec.layers; ++layer)
    own.experts |= parts.computes_experts(layer);
  return further_buffer_bytes(model, limits, own);
}

}  // namespace

HostBatch::HostBatch(HostOffload& host, const Ram& ram, const BatchLimits& limits)
    : host_(host),
      buffers_(ram.charge(std::size_t(further_bytes(host, limits)), "activations")),
      blocks_(host.side.layers().cache(), limits) {
  host.side.layers().reserve(limits.step_tokens);
}

double HostBatch::buffer_bytes(HostOffload& host, const BatchLimits& limits) {
  return cpu_buffer_bytes(host.side.layers().model().spec, double(limits.step_tokens)) +
         further_bytes(host, limits);
}

void HostBatch::place(std::span<const SequenceStep> sequences, const RowOrder& order,
                      bool all_logits) {
  rows_.clear();
  head_rows_.clear();
  head_sequences_.clear();
  std::int64_t kept = 0;
  const auto add = [&](int index, bool single) {
    const auto i = std::size_t(index);
    const bool wanted = all_logits || sequences[i].sampler;
    rows_.add(sequences[i]);
    if (wanted) {
      head_rows_.push_back(kept);
      head_sequences_.push_back(i);
    }
    if (wanted || single) ++kept;
  };
  for (const int i : order.singles) add(i, true);
  for (const int i : order.chunks) add(i, false);
}

void HostBatch::sample(std::span<const SequenceStep> sequences, std::span<std::int32_t> ids) {
  const auto vocabulary = std::size_t(host_.side.layers().model().spec.vocabulary);
  if (!head_sequences_.empty())
    sample_rows(host_.side.team(), sequences, {head_sequences_, host_.side.logits(), vocabulary},
                ids);
}

void HostBatch::read_logits(std::span<float> to) {
  const auto width = std::size_t(host_.side.layers().model().spec.vocabulary);
  const std::span<const float> logits = host_.side.logits();
  for (std::size_t row = 0; row < head_sequences_.size(); ++row)
    std::ranges::copy(logits.subspan(row * width, width),
                      to.begin() + std::ptrdiff_t(head_sequences_[row] * width));
}

MovedBytes HostBatch::take_bytes() {
  MovedBytes copied = blocks_.take_bytes();
  copied.on_host = copied.total();
  return copied;
}

}  // namespace rigcast::engine::cuda
