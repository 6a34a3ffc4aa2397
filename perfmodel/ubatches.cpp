#include "perfmodel/ubatches.hpp"

#include <set>

namespace rigcast {

std::int64_t ubatch_count(const Scenario& s) {
  return (s.workload.prompt_tokens + s.settings.ubatch - 1) / s.settings.ubatch;
}

std::vector<std::int64_t> sampled_ubatches(const Scenario& s, std::int64_t count,
                                           std::int64_t samples) {
  std::set<std::int64_t> at;
  const bool all = count - 1 <= samples;
  for (std::int64_t k = 0; k < (all ? count - 1 : samples); ++k)
    at.insert(all ? k : (count - 2) * k / (samples - 1));
  if (s.model.window && !all) {
    const std::int64_t full = (s.model.window->tokens - s.workload.depth) / s.settings.ubatch;
    for (const std::int64_t i : {full - 1, full, full + 1})
      if (i > 0 && i < count - 2) at.insert(i);
  }
  return {at.begin(), at.end()};
}

}  // namespace rigcast
