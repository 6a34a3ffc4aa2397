#include "sim/serving/cache/block_cache.hpp"

#include <algorithm>

namespace rigcast {
namespace {

Bytes bytes_of_block(const RamTier& ram, TokenCount block) {
  return ram.capacity.value > 0 ? ram.bytes_of(block) : Bytes{};
}

std::size_t blocks_in(const RamTier& ram, TokenCount block) {
  const Bytes bytes = bytes_of_block(ram, block);
  return bytes.value > 0 ? std::size_t(ram.capacity / bytes) : 0;
}

}  // namespace

BlockCache::BlockCache(const SchedulerPolicy& policy, const CacheRoom& room, const RamTier& ram,
                       const RequestLog& log)
    : block_(policy.block_tokens),
      room_(room),
      shares_(policy.prefix_cache),
      in_step_(policy.shares_in_step),
      min_from_ram_(policy.ram_min_tokens),
      pool_(std::size_t(room.tokens / policy.block_tokens)),
      log_(log),
      block_bytes_(bytes_of_block(ram, policy.block_tokens)),
      ram_(blocks_in(ram, policy.block_tokens)) {}

TokenCount BlockCache::longest_sequence() const {
  const TokenCount within = room_.windows.window + block_;  // tokens up to which windows grow, too
  const std::size_t full = window_blocks_for(within);
  if (pool_.count() >= blocks_for(within) + full) return TokenCount(pool_.count() - full) * block_;
  return TokenCount(double(pool_.count()) / (1 + room_.windows.per_block)) * block_;
}

KvCache::Found BlockCache::find(RequestId id) {
  hits_.clear();
  if (!shares_) return {};
  const auto full = std::uint32_t((log_.known(id) - 1) / block_);
  std::uint32_t index = 0;
  for (; index < full; ++index) {
    const auto block = pool_.find(content(id, index));
    if (!block) break;
    hits_.push_back(*block);
  }
  const std::uint32_t here = index;
  while (index < full && ram_.holds(content(id, index))) ++index;
  const TokenCount in_ram = TokenCount(index - here) * block_;
  return {TokenCount(here) * block_, in_ram < min_from_ram_ ? 0 : in_ram};
}

bool BlockCache::has_room(TokenCount tokens, std::size_t of_others) const {
  // Blocks that nobody uses any more but that hold what was found are free as yet.
  const auto unused = std::size_t(
      std::ranges::count_if(hits_, [&](BlockId block) { return pool_.is_free(block); }));
  const std::size_t wanted = lacking(blocks_for(tokens), hits_.size()) + window_blocks_for(tokens);
  return wanted + unused + of_others <= pool_.free();
}

void BlockCache::admit(RequestId id) {
  if (id >= blocks_.size()) blocks_.resize(std::max(std::size_t(id) + 1, log_.size()));
  if (id >= held_.size()) held_.resize(blocks_.size());
  if (id >= windows_.size()) windows_.resize(blocks_.size());
  for (const BlockId block : hits_) pool_.share(block);
  blocks_[id] = hits_;
  held_[id] = TokenCount(hits_.size());
}

void BlockCache::reserve(RequestId id, TokenCount tokens) {
  take_until(blocks_[id], blocks_for(tokens));
  take_until(windows_[id], window_blocks_for(tokens));
}

bool BlockCache::grow(RequestId id, TokenCount tokens) {
  if (units_lacking(id, tokens) > pool_.free()) return false;
  take_until(blocks_[id], blocks_for(tokens));
  take_until(windows_[id], window_blocks_for(tokens));
  hold(id, in_step_ ? tokens : log_.state(id).computed);
  return true;
}

bool BlockCache::can_grow(const std::vector<RequestId>& ids, TokenCount more) const {
  std::size_t sum = 0;
  for (const RequestId id : ids) sum += units_lacking(id, log_.state(id).computed + more);
  return sum <= pool_.free();
}

void BlockCache::release(RequestId id) {
  if (!in_step_) hold(id, log_.state(id).computed);
  pool_.release(windows_[id]);
  windows_[id].clear();
  pool_.release(blocks_[id]);
  blocks_[id].clear();
}

KvCache::Copies BlockCache::take_copies() {
  const Copies out{block_bytes_ * double(stored_), {}};
  stored_ = 0;
  return out;
}

// Full blocks can be shared as soon as they are given: in a step, the keys and values of all
// prompts are written before attention reads them. See vLLM's kv_cache_manager.py,
// allocate_slots(). Other servers offer them when the step has ended.
void BlockCache::hold(RequestId id, TokenCount tokens) {
  if (!shares_) return;
  TokenCount& held = held_[id];
  for (; (held + 1) * block_ <= tokens; ++held) {
    const BlockContent own = content(id, std::uint32_t(held));
    pool_.hold(blocks_[id][std::size_t(held)], own);
    if (ram_.store(own)) ++stored_;
  }
}

}  // namespace rigcast
