#pragma once
// Full blocks of a KV cache that follow one another.

#include <cstdint>
#include <iterator>

namespace rigcast {

/// What they hold: the tokens of `request` from `begin` times the block's size on, up to those of
/// block `end`, which is not one of them. A prompt that begins like another's names that one's.
struct BlockRun {
  std::uint32_t request = 0;
  std::uint32_t begin = 0, end = 0;
  [[nodiscard]] std::uint32_t size() const { return end - begin; }
};

/// A number of its own for every block, in the order of requests and blocks.
constexpr std::uint64_t block_key(std::uint32_t request, std::uint32_t index) {
  return (std::uint64_t(request) << 32) | index;
}
constexpr std::uint32_t request_of(std::uint64_t key) { return std::uint32_t(key >> 32); }
constexpr std::uint32_t index_of(std::uint64_t key) { return std::uint32_t(key); }

/// The run that has this block; runs.end(): none has. `runs` maps the key of the first block to
/// what has a member `end`.
template <class Runs>
auto run_with(Runs& runs, std::uint32_t request, std::uint32_t index) {
  auto run = runs.upper_bound(block_key(request, index));
  if (run == runs.begin()) return runs.end();
  run = std::prev(run);
  const bool has = request_of(run->first) == request && index < run->second.end;
  return has ? run : runs.end();
}

/// Up to where no run has a block of `wanted`, whose first one none has.
template <class Runs>
std::uint32_t gap_end(const Runs& runs, const BlockRun& wanted) {
  const auto next = runs.lower_bound(block_key(wanted.request, wanted.begin));
  const bool in_the_way = next != runs.end() && next->first < block_key(wanted.request, wanted.end);
  return in_the_way ? index_of(next->first) : wanted.end;
}

/// Up to where runs have the blocks of `wanted` one after the other.
template <class Runs>
std::uint32_t held_until(const Runs& runs, const BlockRun& wanted) {
  std::uint32_t index = wanted.begin;
  for (auto run = run_with(runs, wanted.request, index);
       index < wanted.end && run != runs.end() && run->first <= block_key(wanted.request, index) &&
       request_of(run->first) == wanted.request;
       ++run)
    index = run->second.end;
  return index < wanted.end ? index : wanted.end;
}

}  // namespace rigcast
