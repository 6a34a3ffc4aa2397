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

BlockCache::BlockCache(const SchedulerPolicy& policy, TokenCount tokens, const RamTier& ram,
                       const RequestLog& log)
    : block_(policy.block_tokens),
      shares_(policy.prefix_cache),
      in_step_(policy.shares_in_step),
      min_from_ram_(policy.ram_min_tokens),
      pool_(std::size_t(tokens / policy.block_tokens)),
      log_(log),
      block_bytes_(bytes_of_block(ram, policy.block_tokens)),
      ram_(blocks_in(ram, policy.block_tokens)) {}

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
  const std::size_t wanted = blocks_for(tokens) - std::min(blocks_for(tokens), hits_.size());
  return wanted + unused + of_others <= pool_.free();
}

void BlockCache::admit(RequestId id) {
  if (id >= blocks_.size()) blocks_.resize(std::max(std::size_t(id) + 1, log_.size()));
  if (id >= held_.size()) held_.resize(blocks_.size());
  for (const BlockId block : hits_) pool_.share(block);
  blocks_[id] = hits_;
  held_[id] = TokenCount(hits_.size());
}

void BlockCache::reserve(RequestId id, TokenCount tokens) {
  std::vector<BlockId>& own = blocks_[id];
  while (own.size() < blocks_for(tokens)) own.push_back(pool_.take());
}

bool BlockCache::grow(RequestId id, TokenCount tokens) {
  std::vector<BlockId>& own = blocks_[id];
  const std::size_t wanted = blocks_for(tokens);
  if (wanted > own.size() && wanted - own.size() > pool_.free()) return false;
  while (own.size() < wanted) own.push_back(pool_.take());
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
