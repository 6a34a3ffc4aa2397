#include "sim/serving/cache/block_cache.hpp"

#include <algorithm>
#include <utility>

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
  hit_count_ = 0;
  if (!shares_) return {};
  const auto full = std::uint32_t((log_.known(id) - 1) / block_);
  std::uint32_t here = 0;
  for (bool all = true; all && here < full;) {
    BlockRun run = run_of(id, here, full);
    const std::uint32_t until = pool_.held_until(run);
    all = until == run.end;
    run.end = here = until;
    if (run.size() > 0) hits_.push_back(run);
  }
  hit_count_ = here;
  std::uint32_t in_ram = here;
  for (bool all = true; all && in_ram < full;) {
    const BlockRun run = run_of(id, in_ram, full);
    in_ram = ram_.held_until(run);
    all = in_ram == run.end;
  }
  const TokenCount from_ram = TokenCount(in_ram - here) * block_;
  return {TokenCount(here) * block_, from_ram < min_from_ram_ ? 0 : from_ram};
}

bool BlockCache::has_room(TokenCount tokens, std::size_t of_others) const {
  // Blocks that nobody uses any more but that hold what was found are free as yet.
  std::size_t unused = 0;
  for (const BlockRun& run : hits_) unused += pool_.unused(run);
  const std::size_t wanted = lacking(blocks_for(tokens), hit_count_) + window_blocks_for(tokens);
  return wanted + unused + of_others <= pool_.free();
}

void BlockCache::admit(RequestId id) {
  if (id >= own_.size()) own_.resize(std::max(std::size_t(id) + 1, log_.size()));
  Own own;
  own.taken = hit_count_;
  own.stated = std::uint32_t(hit_count_);
  for (const BlockRun& run : hits_) {
    pool_.share(run);
    own.parts.push_back({run, true});
  }
  own_[id] = std::move(own);
}

void BlockCache::reserve(RequestId id, TokenCount tokens) {
  take_until(own_[id].taken, blocks_for(tokens));
  take_until(own_[id].windows, window_blocks_for(tokens));
}

bool BlockCache::grow(RequestId id, TokenCount tokens) {
  if (units_lacking(id, tokens) > pool_.free()) return false;
  reserve(id, tokens);
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
  release_blocks(own_[id]);
  own_[id] = {};
}

// The last ones first.
void BlockCache::release_blocks(const Own& own) {
  pool_.release(own.windows);
  pool_.release(own.taken - own.stated);
  for (auto part = own.parts.rbegin(); part != own.parts.rend(); ++part)
    if (part->findable)
      pool_.release(part->blocks);
    else
      pool_.release(part->blocks.size());
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
  Own& own = own_[id];
  const auto full = std::uint32_t(tokens / block_);
  while (own.stated < full) {
    BlockRun run = run_of(id, own.stated, full);
    const KvBlocks::Stated stated = pool_.hold(run);
    own.stated = run.end = stated.end;
    stored_ += ram_.store(run);
    Part* last = own.parts.empty() ? nullptr : &own.parts.back();
    if (last != nullptr && last->findable == stated.by_these && last->blocks.request == run.request)
      last->blocks.end = run.end;
    else
      own.parts.push_back({run, stated.by_these});
  }
}

}  // namespace rigcast
