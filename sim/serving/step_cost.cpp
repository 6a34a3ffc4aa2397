#include "sim/serving/step_cost.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace rigcast {
using sim::StepUse;

namespace {

// Lengths of the cache for which times are computed: none, then doubling from 256 on.
constexpr TokenCount kFirstLength = 256;

std::pair<TokenCount, TokenCount> lengths_around(double cached) {
  if (cached < double(kFirstLength)) return {0, kFirstLength};
  const auto below = TokenCount(std::bit_floor(std::uint64_t(cached)));
  return {below, 2 * below};
}

}  // namespace

StepUse StepCost::operator()(const StepWork& work) {
  const double sampled =
      double(work.decodes) + double(std::ranges::count_if(work.prompts, &SequenceWork::ends));
  const double mean = work.decodes > 0 ? work.decodes_cached / double(work.decodes) : 0;
  const StepUse sampling = sampling_ * sampled;
  if (work.prompts.empty()) return of_decodes(work.decodes, mean) + sampling;
  std::vector<SequencePart> parts(std::size_t(work.decodes), {TokenCount(std::llround(mean)), 1});
  for (const SequenceWork& prompt : work.prompts)
    parts.push_back({prompt.cached, prompt.tokens, prompt.ends});
  return time_.use_of(parts) + sampling;
}

StepUse StepCost::of_decodes(TokenCount count, double mean_cached) {
  const auto [low, high] = lengths_around(mean_cached);
  const double share = (mean_cached - double(low)) / double(high - low);
  return at(count, low) * (1 - share) + at(count, high) * share;
}

StepUse StepCost::at(TokenCount count, TokenCount cached) {
  const auto [known, is_new] = known_.try_emplace({count, cached});
  if (is_new)
    known->second = time_.use_of(std::vector<SequencePart>(std::size_t(count), {cached, 1}));
  return known->second;
}

}  // namespace rigcast
