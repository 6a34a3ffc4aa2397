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
// Tokens of a sequence in RAM for which they are: one, then doubling from this on.
constexpr TokenCount kFirstExcess = 64;

std::pair<TokenCount, TokenCount> powers_around(double cached) {
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
  if (work.prompts.empty()) {
    StepUse use = of_decodes(work.decodes, mean) + sampling;
    // A length between those that are computed is full or not by itself.
    if (use.full)
      use.full =
          time_.paging(work.decodes, TokenCount(std::llround(mean))).reclaim == Reclaim::kFull;
    return use;
  }
  std::vector<SequencePart> parts(std::size_t(work.decodes), {TokenCount(std::llround(mean)), 1});
  for (const SequenceWork& prompt : work.prompts)
    parts.push_back({prompt.cached, prompt.tokens, prompt.ends});
  return time_.use_of(parts) + sampling;
}

// Where caches are no longer where they are computed, blocks in VRAM or pages in RAM.
bool StepCost::leaves_memory(TokenCount count, TokenCount cached) const {
  return time_.cold_tokens(count, cached) > 0 || time_.paging(count, cached).lacking.value > 0;
}

// The longest cache of each sequence with which none of it leaves memory; nullopt: none does with
// `up_to` tokens.
std::optional<TokenCount> StepCost::longest_in_memory(TokenCount count, TokenCount up_to) {
  Kink& kink = kinks_[count];
  if (kink.last_without) return kink.last_without;
  if (up_to <= kink.none_up_to) return std::nullopt;
  if (!leaves_memory(count, up_to)) {
    kink.none_up_to = up_to;
    return std::nullopt;
  }
  TokenCount without = std::max<TokenCount>(0, kink.none_up_to), with = up_to;
  while (with - without > 1) {
    const TokenCount middle = without + (with - without) / 2;
    (leaves_memory(count, middle) ? with : without) = middle;
  }
  return kink.last_without = without;
}

// Time has a kink, or a step, where blocks begin to be in RAM, and another one behind it where
// their copies take longer than the computation that hides them; a step, where pages leave RAM.
StepCost::Lengths StepCost::lengths_around(TokenCount count, double cached) {
  const auto [low, high] = powers_around(cached);
  const auto last = longest_in_memory(count, high);
  if (!last) return {low, high};
  if (cached <= double(*last)) return {low, std::min(high, *last)};
  const double excess = cached - double(*last);
  if (excess <= 1) return {*last, *last + 1};
  if (excess < double(kFirstExcess)) return {*last + 1, *last + kFirstExcess};
  const auto below = TokenCount(std::bit_floor(std::uint64_t(excess)));
  return {*last + below, *last + 2 * below};
}

StepUse StepCost::of_decodes(TokenCount count, double mean_cached) {
  const auto [low, high] = lengths_around(count, mean_cached);
  if (low == high) return at(count, low);
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
