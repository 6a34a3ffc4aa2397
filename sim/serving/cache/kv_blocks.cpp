#include "sim/serving/cache/kv_blocks.hpp"

#include <algorithm>
#include <cassert>

namespace rigcast {

KvBlocks::KvBlocks(std::size_t count) : count_(count), free_(count) {
  if (count > 0) free_runs_.push_back({held_.end(), count});
}

std::uint32_t KvBlocks::held_until(const BlockRun& wanted) const {
  return rigcast::held_until(held_, wanted);
}

std::size_t KvBlocks::unused(const BlockRun& held) const {
  std::size_t sum = 0;
  const std::uint64_t end = block_key(held.request, held.end);
  for (auto run = run_with(held_, held.request, held.begin); run != held_.end() && run->first < end;
       ++run)
    if (run->second.users == 0)
      sum += std::min(run->second.end, held.end) - std::max(index_of(run->first), held.begin);
  return sum;
}

void KvBlocks::take(std::size_t blocks) {
  assert(blocks <= free_);
  free_ -= blocks;
  while (blocks > 0) {
    FreeRun& first = free_runs_.front();
    const std::size_t taken = std::min(blocks, first.count);
    blocks -= taken;
    first.count -= taken;
    if (first.held != held_.end()) first.held->second.end -= std::uint32_t(taken);
    if (first.count > 0) continue;
    if (first.held != held_.end()) held_.erase(first.held);
    free_runs_.pop_front();
  }
}

void KvBlocks::share(const BlockRun& held) {
  split_at(held.request, held.begin);
  split_at(held.request, held.end);
  const std::uint64_t end = block_key(held.request, held.end);
  auto run = held_.find(block_key(held.request, held.begin));
  while (run != held_.end() && run->first < end) {
    if (run->second.users == 0) {
      free_ -= run->second.free->count;
      free_runs_.erase(run->second.free);
    }
    ++run->second.users;
    join_before(run++);
  }
}

void KvBlocks::release(const BlockRun& held) {
  split_at(held.request, held.begin);
  split_at(held.request, held.end);
  const std::uint64_t begin = block_key(held.request, held.begin);
  auto run = held_.lower_bound(block_key(held.request, held.end));
  bool first = false;
  while (!first) {
    run = std::prev(run);
    first = run->first == begin;
    if (--run->second.users == 0)
      append_free(run);
    else if (const auto next = std::next(run); next != held_.end())
      join_before(next);
  }
}

void KvBlocks::release(std::size_t blocks) {
  if (blocks == 0) return;
  free_ += blocks;
  if (!free_runs_.empty() && free_runs_.back().held == held_.end())
    free_runs_.back().count += blocks;
  else
    free_runs_.push_back({held_.end(), blocks});
}

KvBlocks::Stated KvBlocks::hold(const BlockRun& full) {
  const auto others = run_with(held_, full.request, full.begin);
  if (others != held_.end()) return {std::min(others->second.end, full.end), false};
  const std::uint32_t end = gap_end(held_, full);
  const auto run = held_.emplace(block_key(full.request, full.begin), Held{end, 1, {}}).first;
  join_before(run);
  return {end, true};
}

// The part from `index` on, which is within the run, becomes one of its own.
KvBlocks::HeldRuns::iterator KvBlocks::split(HeldRuns::iterator run, std::uint32_t index) {
  Held& before = run->second;
  const auto after =
      held_.emplace_hint(std::next(run), block_key(request_of(run->first), index), before);
  before.end = index;
  if (before.users > 0) return after;
  const std::size_t count = after->second.end - index;
  before.free->count -= count;
  after->second.free = free_runs_.insert(before.free, {after, count});
  return after;
}

void KvBlocks::split_at(std::uint32_t request, std::uint32_t index) {
  const auto run = run_with(held_, request, index);
  if (run != held_.end() && index_of(run->first) < index) split(run, index);
}

// Joins it to the run before it if that continues in it and has as many users, but some: free ones
// have an order.
void KvBlocks::join_before(HeldRuns::iterator run) {
  if (run == held_.begin() || run->second.users == 0) return;
  const auto before = std::prev(run);
  if (before->second.users != run->second.users ||
      block_key(request_of(before->first), before->second.end) != run->first)
    return;
  before->second.end = run->second.end;
  held_.erase(run);
}

void KvBlocks::append_free(HeldRuns::iterator run) {
  const std::size_t count = run->second.end - index_of(run->first);
  free_ += count;
  const std::uint64_t next = block_key(request_of(run->first), run->second.end);
  if (!free_runs_.empty() && free_runs_.back().held != held_.end() &&
      free_runs_.back().held->first == next) {
    FreeRun& last = free_runs_.back();
    run->second.end = last.held->second.end;
    held_.erase(last.held);
    last = {run, last.count + count};
  } else {
    free_runs_.push_back({run, count});
  }
  run->second.free = std::prev(free_runs_.end());
}

}  // namespace rigcast
