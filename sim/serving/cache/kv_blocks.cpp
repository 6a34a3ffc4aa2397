#include "sim/serving/cache/kv_blocks.hpp"

#include <cassert>
#include <limits>

namespace rigcast {
namespace {

constexpr BlockId kNone = std::numeric_limits<BlockId>::max();
constexpr std::uint64_t kNothing = std::numeric_limits<std::uint64_t>::max();

}  // namespace

KvBlocks::KvBlocks(std::size_t count) : blocks_(count), first_(kNone), last_(kNone) {
  for (BlockId block = 0; block < count; ++block) {
    blocks_[block].content = kNothing;
    append_free(block);
  }
}

std::optional<BlockId> KvBlocks::find(BlockContent content) const {
  const auto found = held_.find(key(content));
  if (found == held_.end()) return std::nullopt;
  return found->second;
}

BlockId KvBlocks::take() {
  assert(free_ > 0);
  const BlockId block = first_;
  remove_free(block);
  Block& b = blocks_[block];
  if (b.content != kNothing) {
    held_.erase(b.content);
    b.content = kNothing;
  }
  b.users = 1;
  return block;
}

void KvBlocks::share(BlockId block) {
  if (blocks_[block].users == 0) remove_free(block);
  ++blocks_[block].users;
}

void KvBlocks::release(std::span<const BlockId> blocks) {
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block)
    if (--blocks_[*block].users == 0) append_free(*block);
}

void KvBlocks::hold(BlockId block, BlockContent content) {
  Block& b = blocks_[block];
  if (b.content != kNothing) return;
  if (held_.emplace(key(content), block).second) b.content = key(content);
}

void KvBlocks::append_free(BlockId block) {
  Block& b = blocks_[block];
  b.next = kNone;
  b.previous = last_;
  (last_ == kNone ? first_ : blocks_[last_].next) = block;
  last_ = block;
  ++free_;
}

void KvBlocks::remove_free(BlockId block) {
  const Block& b = blocks_[block];
  (b.previous == kNone ? first_ : blocks_[b.previous].next) = b.next;
  (b.next == kNone ? last_ : blocks_[b.next].previous) = b.previous;
  --free_;
}

}  // namespace rigcast
