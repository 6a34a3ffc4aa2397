#include "engine/backends/cpu/batch/sample_rows.hpp"

#include <vector>

namespace rigcast::engine {
namespace {

bool any_nan(std::span<const float> logits) {
  bool any = false;
  for (const float logit : logits) any |= logit != logit;  // one pass of vectors, no exit
  return any;
}

std::int32_t chosen_by(Sampler& sampler, std::span<const float> logits) {
  return any_nan(logits) ? BatchExecutor::kNotNumbers : sampler.next(logits);
}

}  // namespace

void sample_rows(ThreadTeam& team, std::span<const SequenceStep> step, const SampledRows& rows,
                 std::span<std::int32_t> chosen) {
  std::vector<std::uint64_t> drawn;  // before
  for (const std::size_t i : rows.sequences) drawn.push_back(step[i].sampler->drawn());
  try {
    team.run([&](Worker& worker) {
      worker.parallel_for_nowait(
          std::int64_t(rows.sequences.size()), 1, [&](std::int64_t row, std::int64_t) {
            const std::size_t i = rows.sequences[std::size_t(row)];
            chosen[i] =
                chosen_by(*step[i].sampler,
                          rows.logits.subspan(std::size_t(row) * rows.vocabulary, rows.vocabulary));
          });
    });
  } catch (...) {
    for (std::size_t row = 0; row < drawn.size(); ++row)
      step[rows.sequences[row]].sampler->rewind(drawn[row]);
    throw;
  }
}

}  // namespace rigcast::engine
