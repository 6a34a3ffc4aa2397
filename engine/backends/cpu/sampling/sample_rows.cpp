#include "engine/backends/cpu/sampling/sample_rows.hpp"

#include <vector>

#include "engine/backends/cpu/sampling/choose_tokens.hpp"

namespace rigcast::engine {

void sample_rows(ThreadTeam& team, std::span<const SequenceStep> step, const SampledRows& rows,
                 std::span<std::int32_t> chosen) {
  std::vector<SampledLogits> sampled;
  for (std::size_t row = 0; row < rows.sequences.size(); ++row)
    sampled.push_back({step[rows.sequences[row]].sampler,
                       rows.logits.subspan(row * rows.vocabulary, rows.vocabulary)});
  const auto ids = choose_tokens(team, sampled);
  for (std::size_t row = 0; row < ids.size(); ++row)
    chosen[rows.sequences[row]] = ids[row].value_or(BatchExecutor::kNotNumbers);
}

}  // namespace rigcast::engine
