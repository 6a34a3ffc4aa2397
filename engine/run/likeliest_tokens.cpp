#include "engine/run/likeliest_tokens.hpp"

#include <algorithm>
#include <functional>

namespace rigcast::engine {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

// Several maxima are kept side by side for SIMD. NaN is never larger.
float max_of(std::span<const float> logits) {
  constexpr std::size_t kSide = 16;
  float most[kSide];
  std::fill_n(most, kSide, kLowest);
  std::size_t i = 0;
  for (; i + kSide <= logits.size(); i += kSide)
    for (std::size_t k = 0; k < kSide; ++k)
      most[k] = logits[i + k] > most[k] ? logits[i + k] : most[k];
  for (; i < logits.size(); ++i) most[0] = logits[i] > most[0] ? logits[i] : most[0];
  return *std::max_element(most, most + kSide);
}

// use(first, block) for each block of the logits, where they begin.
template <class Use>
void for_each_block(std::span<const float> logits, std::size_t size, const Use& use) {
  for (std::size_t first = 0; first < logits.size(); first += size)
    use(first, logits.subspan(first, std::min(size, logits.size() - first)));
}

// Blocks of which so many have maxima that the least of the likeliest ones' leaves few tokens: more
// than four for each wanted token, where these are few enough.
std::size_t block_size(std::size_t logits, std::size_t wanted) {
  return std::clamp<std::size_t>(logits / (4 * wanted) / 16 * 16, 16, 256);
}

}  // namespace

// Compared as integers, which compilers do for several at once.
bool any_nan(std::span<const float> logits) {
  constexpr std::int32_t kInfinity = 0x7f800000, kWithoutSign = 0x7fffffff;
  std::uint32_t any = 0;
  for (const float logit : logits)
    any |= std::uint32_t((std::bit_cast<std::int32_t>(logit) & kWithoutSign) > kInfinity);
  return any != 0;
}

// A vocabulary has 100,000 tokens or more: the place is looked for in one block of it.
std::int32_t argmax_token(std::span<const float> logits) {
  float largest = kLowest;
  std::span<const float> where = logits;
  for_each_block(logits, 1024, [&](std::size_t, std::span<const float> block) {
    const float most = max_of(block);
    if (most > largest) largest = most, where = block;
  });
  const auto place = std::find(where.begin(), where.end(), largest);
  return place == where.end() ? 0 : std::int32_t(&*place - logits.data());
}

// The largest logits of as many blocks as tokens are wanted are all at least the smallest of these
// maxima: no token below it is among the wanted.
std::vector<RankedToken> candidates_of(std::span<const float> logits, std::size_t wanted,
                                       std::int32_t first_id) {
  const std::size_t size = block_size(logits.size(), std::max<std::size_t>(wanted, 1));
  std::vector<float> maxima;
  for_each_block(logits, size, [&](std::size_t, auto block) { maxima.push_back(max_of(block)); });
  float smallest = kLowest;
  if (wanted > 0 && wanted <= maxima.size()) {
    std::vector<float> ranked = maxima;
    const auto last = ranked.begin() + std::ptrdiff_t(wanted) - 1;
    std::nth_element(ranked.begin(), last, ranked.end(), std::greater());
    smallest = *last;
  }
  std::vector<RankedToken> tokens;
  std::size_t equal = 0;  // to the smallest: the first of them suffice
  for_each_block(logits, size, [&](std::size_t first, std::span<const float> block) {
    if (maxima[first / size] < smallest) return;
    for (std::size_t i = 0; i < block.size(); ++i) {
      if (block[i] < smallest || (block[i] == smallest && equal++ >= wanted)) continue;
      tokens.emplace_back(block[i], first_id + std::int32_t(first + i));
    }
  });
  return tokens;
}

void sort_likeliest(std::size_t count, std::span<RankedToken> tokens) {
  constexpr std::size_t kFew = 1024;  // a heap of so few is faster than a partition
  const auto last = tokens.begin() + std::ptrdiff_t(count);
  if (count <= kFew) {
    std::partial_sort(tokens.begin(), last, tokens.end());
    return;
  }
  if (count < tokens.size()) std::nth_element(tokens.begin(), last, tokens.end());
  std::sort(tokens.begin(), last);
}

}  // namespace rigcast::engine
