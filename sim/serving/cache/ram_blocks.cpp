#include "sim/serving/cache/ram_blocks.hpp"

#include <algorithm>

namespace rigcast {

std::size_t RamBlocks::store(BlockRun blocks) {
  std::size_t stored = 0;
  while (count_ > 0 && blocks.begin < blocks.end) {
    BlockRun next = blocks;
    if (const auto run = run_with(held_, blocks.request, blocks.begin); run != held_.end()) {
      next.end = std::min(run->second.end, blocks.end);
      remove(run, next.begin, next.end);
    } else {
      next.end = gap_end(blocks);
      next.end = next.begin + make_room(next.size());
      stored += next.size();
    }
    append(next);
    blocks.begin = next.end;
  }
  return stored;
}

// Room for up to `blocks`, one at least: as many as go before others are asked. What goes may be
// what would be stored next.
std::uint32_t RamBlocks::make_room(std::uint32_t blocks) {
  if (size_ < count_) return std::uint32_t(std::min<std::size_t>(blocks, count_ - size_));
  const auto first = held_.find(order_.front());
  const std::uint32_t begin = index_of(first->first);
  const std::uint32_t room = std::min(blocks, first->second.end - begin);
  remove(first, begin, begin + room);
  return room;
}

// Takes these blocks out of a run, whose other ones keep their place.
void RamBlocks::remove(HeldRuns::iterator run, std::uint32_t begin, std::uint32_t end) {
  size_ -= end - begin;
  const std::uint32_t request = request_of(run->first);
  const Held held = run->second;
  if (end < held.end) {
    const auto after =
        held_.emplace_hint(std::next(run), block_key(request, end), Held{held.end, {}});
    after->second.place = order_.insert(std::next(held.place), after->first);
  }
  if (index_of(run->first) < begin) {
    run->second.end = begin;
    return;
  }
  order_.erase(held.place);
  held_.erase(run);
}

void RamBlocks::append(const BlockRun& blocks) {
  size_ += blocks.size();
  const std::uint64_t begin = block_key(blocks.request, blocks.begin);
  if (!order_.empty()) {
    const auto last = held_.find(order_.back());
    if (block_key(request_of(last->first), last->second.end) == begin) {
      last->second.end = blocks.end;
      return;
    }
  }
  const auto run = held_.emplace(begin, Held{blocks.end, {}}).first;
  run->second.place = order_.insert(order_.end(), begin);
}

}  // namespace rigcast
