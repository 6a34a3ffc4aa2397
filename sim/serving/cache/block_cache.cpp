#include "sim/serving/cache/block_cache.hpp"

#include <algorithm>
#include <utility>

namespace rigcast {
namespace {

Bytes bytes_of_block(const RamTier& ram, TokenCount block) {
  return ram.any() ? ram.bytes_of(block) : Bytes{};
}

std::size_t blocks_in(Bytes capacity, const RamTier& ram, TokenCount block) {
  const Bytes bytes = bytes_of_block(ram, block);
  return bytes.value > 0 ? std::size_t(capacity / bytes) : 0;
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
      ram_(blocks_in(ram.capacity, ram, policy.block_tokens)),
      disk_(blocks_in(ram.disk, ram, policy.block_tokens)),
      choice_(ram.restore, policy.block_tokens, block_bytes_),
      checkpoints_(room.checkpoints) {}

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
  find_behind(id, here, full);
  if (checkpoints_.are_needed()) cut_to_checkpoint(id, here);
  hit_count_ = here;
  return choose(TokenCount(here) * block_);
}

void BlockCache::cut_to_checkpoint(RequestId id, std::uint32_t& here) {
  known_ = here;
  for (const FoundRun& run : behind_) known_ += run.blocks;
  const std::uint32_t end = checkpoints_.use([&](std::uint32_t request, std::uint32_t blocks) {
    return blocks <= known_ && run_of(id, blocks - 1, blocks).request == request;
  });
  std::uint32_t left = end - std::min(end, here);  // of those behind
  for (FoundRun& run : behind_) {
    run.blocks = std::min(left, run.blocks);
    left -= run.blocks;
  }
  std::erase_if(behind_, [](const FoundRun& run) { return run.blocks == 0; });
  here = std::min(here, end);
  while (!hits_.empty() && hits_.back().begin >= here) hits_.pop_back();
  if (!hits_.empty()) hits_.back().end = std::min(hits_.back().end, here);
}

// Of steps that have computed `tokens` of a request, of which `before` blocks were known. Mirrors
// KvPool::last_checkpoint and take_checkpoint (engine/serve/kv_pool.cpp).
void BlockCache::take_checkpoints(RequestId id, std::uint32_t before, TokenCount tokens) {
  if (!checkpoints_.are_needed()) return;
  Own& own = own_[id];
  const auto full = std::uint32_t(tokens / block_);
  const auto key_of = [&](std::uint32_t blocks) {
    return block_key(run_of(id, blocks - 1, blocks).request, blocks);
  };
  for (const std::uint32_t end : {own.parts_at, own.last_of_prompt})
    if (before < end && end <= full) checkpoints_.take(key_of(end));
  if (full <= before || TokenCount(full) * block_ <= log_[id].prompt) return;
  checkpoints_.take(key_of(full), own.of_answer);
  own.of_answer = key_of(full);
}

// Blocks behind those of the cache, of which RAM's are taken where both have them.
void BlockCache::find_behind(RequestId id, std::uint32_t here, std::uint32_t full) {
  behind_.clear();
  for (std::uint32_t at = here; at < full;) {
    const BlockRun run = run_of(id, at, full);
    std::uint32_t until = ram_.held_until(run);
    const bool on_disk = until == at;
    if (on_disk) until = held_on_disk_alone(run);
    if (until == at) return;
    behind_.push_back({on_disk, until - at});
    at = until;
  }
}

// Up to where the disk has these one after the other, and RAM has none of them.
std::uint32_t BlockCache::held_on_disk_alone(const BlockRun& run) const {
  return std::min(disk_.held_until(run), ram_.gap_end(run));
}

KvCache::Found BlockCache::choose(TokenCount here) const {
  Found found{here};
  std::uint32_t left = choice_.blocks_back(behind_);
  for (const FoundRun& run : behind_) {
    const std::uint32_t back = std::min(left, run.blocks);
    left -= back;
    (run.on_disk ? found.on_disk : found.in_ram) += TokenCount(back) * block_;
    found.left += TokenCount(run.blocks - back) * block_;
  }
  if (found.to_load() >= min_from_ram_) return found;
  return {.here = here, .left = found.left + found.to_load()};
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
  constexpr TokenCount kAnswerBegin = 8;
  own.parts_at = known_;
  own.last_of_prompt =
      std::uint32_t(std::max<TokenCount>(0, log_.known(id) - 1 - kAnswerBegin) / block_);
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
  const Copies out{block_bytes_ * double(stored_), {}, block_bytes_ * double(written_)};
  stored_ = written_ = 0;
  return out;
}

// Full blocks can be shared as soon as they are given: in a step, the keys and values of all
// prompts are written before attention reads them. See vLLM's kv_cache_manager.py,
// allocate_slots(). Other servers offer them when the step has ended.
void BlockCache::hold(RequestId id, TokenCount tokens) {
  if (!shares_) return;
  Own& own = own_[id];
  const auto full = std::uint32_t(tokens / block_);
  take_checkpoints(id, own.stated, tokens);
  while (own.stated < full) {
    BlockRun run = run_of(id, own.stated, full);
    const KvBlocks::Stated stated = pool_.hold(run);
    own.stated = run.end = stated.end;
    stored_ += ram_.store(run);
    written_ += disk_.store(run);
    Part* last = own.parts.empty() ? nullptr : &own.parts.back();
    if (last != nullptr && last->findable == stated.by_these && last->blocks.request == run.request)
      last->blocks.end = run.end;
    else
      own.parts.push_back({run, stated.by_these});
  }
}

}  // namespace rigcast
