#include "engine/serve/kv_pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/error.hpp"

namespace rigcast::engine {

KvPool::KvPool(const BatchLimits& limits, bool prefix_cache, int disk_blocks)
    : block_(limits.block_tokens),
      prefix_cache_(prefix_cache),
      pool_(limits.blocks, limits.cold_blocks),
      host_(prefix_cache ? limits.host_blocks : 0),
      disk_(prefix_cache ? disk_blocks : 0),
      checkpoints_(prefix_cache ? limits.checkpoints : 0),
      windows_(limits.window_blocks),
      window_(limits.window),
      held_(std::size_t(checkpoints_.count())),
      has_disk_(disk_.count() > 0) {
  RIGCAST_ASSERT(block_ > 0);
}

KvPool::Found KvPool::find(std::span<const std::int32_t> tokens) const {
  Found found;
  if (!prefix_cache_ || tokens.empty()) return found;
  const std::size_t full = (tokens.size() - 1) / std::size_t(block_);
  PrefixTree::Node last = PrefixTree::kRoot;
  bool here = true;
  for (std::size_t index = 0; index < full; ++index) {
    const auto node = tree_.child(last, block_of(tokens, index));
    if (!node) break;
    here = here && tree_.block(*node) != PrefixTree::kNowhere;
    if (!here) {
      const auto tier = tier_of(*node);
      if (!tier) break;
      found.tiers.push_back(*tier);
      (*tier == KvTier::kHost ? found.host_tokens : found.disk_tokens) += block_;
    }
    found.nodes.push_back(last = *node);
    if (here) ++found.here;
  }
  found.here_tokens = TokenCount(found.here) * block_;
  found.known_tokens = found.tokens();
  cut_to_checkpoint(found);
  return found;
}

void KvPool::cut_to_checkpoint(Found& found) const {
  if (!keeps_states()) return;
  found.checkpoint = PrefixTree::kNowhere;
  while (!found.nodes.empty()) {
    found.checkpoint = tree_.checkpoint(found.nodes.back());
    if (found.checkpoint != PrefixTree::kNowhere) return;
    if (!found.tiers.empty()) {
      keep_fewer(found);
      continue;
    }
    found.nodes.pop_back();
    --found.here;
    found.here_tokens -= block_;
  }
}

// Where it comes back from; nullopt: it is in no tier behind the pool, or not yet.
std::optional<KvTier> KvPool::tier_of(PrefixTree::Node node) const {
  if (tree_.host_block(node) != PrefixTree::kNowhere) return KvTier::kHost;
  const int on_disk = tree_.disk_block(node);
  if (on_disk == PrefixTree::kNowhere || disk_.users(on_disk) > 0) return std::nullopt;
  return KvTier::kDisk;
}

void KvPool::keep(Found& found, std::size_t to_restore) const {
  while (found.tiers.size() > to_restore) keep_fewer(found);
  cut_to_checkpoint(found);
}

// Leaves out the last of those that are not in the pool.
void KvPool::keep_fewer(Found& found) const {
  (found.tiers.back() == KvTier::kHost ? found.host_tokens : found.disk_tokens) -= block_;
  found.tiers.pop_back();
  found.nodes.pop_back();
}

int KvPool::blocks_lacking(const SequenceBlocks& own, TokenCount tokens) const {
  return std::max(0, blocks_for(tokens) - int(own.blocks.size()));
}

bool KvPool::has_room(const Found& found, TokenCount tokens, int of_others) const {
  // Blocks that nobody uses any more but that hold what was found are free as yet.
  int unused = 0;
  for (std::size_t i = 0; i < found.here; ++i)
    if (pool_.users(tree_.block(found.nodes[i])) == 0) ++unused;
  const int lacking = std::max(0, blocks_for(tokens) - int(found.here));
  return lacking + unused + of_others <= pool_.free();
}

KvPool::Restored KvPool::admit(SequenceBlocks& own, const Found& found) {
  RIGCAST_ASSERT(own.blocks.empty());
  Restored copies;
  own.blocks.reserve(found.nodes.size());
  for (std::size_t i = 0; i < found.here; ++i) {
    const int block = tree_.block(found.nodes[i]);
    pool_.share(block);
    own.blocks.push_back(block);
  }
  own.findable = found.here;
  own.last = found.here > 0 ? found.nodes[found.here - 1] : PrefixTree::kRoot;
  tree_.pin(own.last);
  own.checkpoint = found.checkpoint;
  if (own.checkpoint >= 0) {
    checkpoints_.share(own.checkpoint);
    const HeldWindow& held = held_[std::size_t(own.checkpoint)];
    own.window_blocks.assign(held.from, 0);
    own.windows_from = held.from;
    for (const int block : held.blocks) {
      windows_.share(block);
      own.window_blocks.push_back(block);
    }
  }
  // Blocks are taken from others' remains, which are in another tier, too: nodes stay.
  for (std::size_t i = found.here; i < found.nodes.size(); ++i) {
    const int block = take();
    own.blocks.push_back(block);
    if (found.tiers[i - found.here] == KvTier::kHost)
      copies.from_host.push_back({tree_.host_block(found.nodes[i]), block});
    else
      copies.from_disk.push_back({tree_.disk_block(found.nodes[i]), block});
  }
  return copies;
}

int KvPool::take() {
  const int block = pool_.take();
  if (const PrefixTree::Node held = pool_.content(block); held != PrefixTree::kRoot) {
    pool_.set_content(block, PrefixTree::kRoot);
    tree_.set_block(held, PrefixTree::kNowhere);
  }
  return block;
}

bool KvPool::grow(SequenceBlocks& own, TokenCount tokens) {
  const int lacking = blocks_lacking(own, tokens);
  if (lacking > pool_.free() || (windows_.count() > 0 && lacking > windows_.free())) return false;
  own.blocks.reserve(own.blocks.size() + std::size_t(lacking));
  for (int i = 0; i < lacking; ++i) own.blocks.push_back(take());
  for (int i = 0; i < lacking && windows_.count() > 0; ++i)
    own.window_blocks.push_back(windows_.take());
  return true;
}

void KvPool::leave_windows(SequenceBlocks& own, TokenCount computed) {
  const auto needed = std::size_t(std::max<TokenCount>(0, computed + 1 - window_) / block_);
  for (; own.windows_from < std::min(needed, own.window_blocks.size()); ++own.windows_from) {
    int& block = own.window_blocks[own.windows_from];
    windows_.release(block);
    block = 0;
  }
}

KvPool::Kept KvPool::hold(SequenceBlocks& own, std::span<const std::int32_t> computed) {
  Kept copies;
  if (!prefix_cache_) return copies;
  const std::size_t full = computed.size() / std::size_t(block_);
  for (; own.findable < full; ++own.findable) {
    const auto tokens = block_of(computed, own.findable);
    const auto known = tree_.child(own.last, tokens);
    const PrefixTree::Node node = known ? *known : tree_.add(own.last, tokens);
    tree_.pin(node);
    tree_.unpin(own.last);
    own.last = node;
    const int block = own.blocks[own.findable];
    if (tree_.block(node) == PrefixTree::kNowhere) {  // else another block holds the same
      tree_.set_block(node, block);
      pool_.set_content(block, node);
    }
    store_on_host(node, block, copies.to_host);
    store_on_disk(node, block, copies.to_disk);
  }
  return copies;
}

void KvPool::store_on_host(PrefixTree::Node node, int block, std::vector<BlockCopy>& copies) {
  if (host_.count() == 0) return;
  if (const int there = tree_.host_block(node); there != PrefixTree::kNowhere)
    return host_.touch(there);
  const int to = host_.take();
  if (const PrefixTree::Node held = host_.content(to); held != PrefixTree::kRoot)
    tree_.set_host_block(held, PrefixTree::kNowhere);
  // A small pool takes a block of these copies again. They are made at once, in no order.
  std::erase_if(copies, [to](const BlockCopy& copy) { return copy.to == to; });
  host_.set_content(to, node);
  host_.release(to);
  tree_.set_host_block(node, to);
  copies.push_back({block, to});
}

void KvPool::forget_host_copies(std::span<const BlockCopy> copies) {
  for (const BlockCopy& copy : copies) {
    const PrefixTree::Node node = host_.content(copy.to);
    if (node == PrefixTree::kRoot) continue;
    host_.set_content(copy.to, PrefixTree::kRoot);
    tree_.set_host_block(node, PrefixTree::kNowhere);
  }
}

// What is being written there keeps its block until that has ended.
void KvPool::store_on_disk(PrefixTree::Node node, int block, std::vector<BlockCopy>& copies) {
  if (!has_disk_) return;
  if (const int there = tree_.disk_block(node); there != PrefixTree::kNowhere)
    return disk_.touch(there);
  if (disk_.free() == 0) return;
  const int to = disk_.take();
  forget_disk_block(to);
  disk_.set_content(to, node);
  tree_.set_disk_block(node, to);
  copies.push_back({block, to});
}

void KvPool::forget_disk_block(int block) {
  const PrefixTree::Node held = disk_.content(block);
  if (held == PrefixTree::kRoot) return;
  disk_.set_content(block, PrefixTree::kRoot);
  tree_.set_disk_block(held, PrefixTree::kNowhere);
}

void KvPool::forget_disk_copies(std::span<const BlockCopy> copies) {
  for (const BlockCopy& copy : copies) {
    forget_disk_block(copy.to);
    disk_.release(copy.to);
  }
}

void KvPool::drop_disk() {
  has_disk_ = false;
  for (int block = 0; block < disk_.count(); ++block) {
    forget_disk_block(block);
    if (disk_.users(block) > 0) disk_.release(block);
  }
}

TokenCount KvPool::last_checkpoint(TokenCount prompt) const {
  constexpr TokenCount kAnswerBegin = 8;  // <|im_start|>assistant, <think>, and line ends
  return std::max<TokenCount>(0, prompt - 1 - kAnswerBegin) / block_ * block_;
}

std::optional<int> KvPool::take_checkpoint(SequenceBlocks& own, bool of_answer) {
  if (!keeps_states() || own.findable == 0) return std::nullopt;
  if (const int there = tree_.checkpoint(own.last); there != PrefixTree::kNowhere) {
    checkpoints_.touch(there);
    return std::nullopt;
  }
  int slot = own.own_checkpoint;
  const bool again = of_answer && slot >= 0 && checkpoints_.users(slot) == 0 &&
                     checkpoints_.content(slot) == own.at_own;
  if (again) {
    checkpoints_.touch(slot);
  } else {
    if (checkpoints_.free() == 0) return std::nullopt;
    slot = checkpoints_.take();
    checkpoints_.release(slot);  // the last of the free ones
  }
  forget_checkpoint(slot);
  checkpoints_.set_content(slot, own.last);
  tree_.set_checkpoint(own.last, slot);
  HeldWindow& held = held_[std::size_t(slot)];
  held.from = own.windows_from;
  for (std::size_t i = held.from; i < std::min(own.findable, own.window_blocks.size()); ++i) {
    windows_.share(own.window_blocks[i]);
    held.blocks.push_back(own.window_blocks[i]);
  }
  if (of_answer) {
    own.own_checkpoint = slot;
    own.at_own = own.last;
  }
  return slot;
}

void KvPool::forget_checkpoint(int checkpoint) {
  const PrefixTree::Node held = checkpoints_.content(checkpoint);
  if (held == PrefixTree::kRoot) return;
  checkpoints_.set_content(checkpoint, PrefixTree::kRoot);
  for (const int block : std::exchange(held_[std::size_t(checkpoint)], {}).blocks)
    windows_.release(block);
  tree_.set_checkpoint(held, PrefixTree::kNowhere);
}

void KvPool::restored(SequenceBlocks& own) {
  if (own.checkpoint >= 0) checkpoints_.release(own.checkpoint);
  own.checkpoint = -1;
}

void KvPool::release(SequenceBlocks& own) {
  restored(own);
  // The last ones first, so that the beginning of a prompt is kept the longest.
  for (auto block = own.blocks.rbegin(); block != own.blocks.rend(); ++block) pool_.release(*block);
  for (std::size_t i = own.windows_from; i < own.window_blocks.size(); ++i)
    windows_.release(own.window_blocks[i]);
  tree_.unpin(own.last);
  own = {};
}

std::string KvPool::contradiction(std::span<const SequenceBlocks* const> sequences) const {
  std::vector<int> users(std::size_t(pool_.count()));
  for (const SequenceBlocks* own : sequences)
    for (const int block : own->blocks) ++users[std::size_t(block)];
  int free = 0;
  for (int block = 0; block < pool_.count(); ++block) {
    const int counted = users[std::size_t(block)];
    if (counted != pool_.users(block))
      return fmt::format("block {} has {} users, and counts {}", block, counted,
                         pool_.users(block));
    free += counted == 0 ? 1 : 0;
    const PrefixTree::Node held = pool_.content(block);
    if (held != PrefixTree::kRoot && tree_.block(held) != block)
      return fmt::format("what is in block {} is said to be elsewhere", block);
  }
  std::vector<int> of_windows(std::size_t(windows_.count()));
  for (const SequenceBlocks* own : sequences)
    for (std::size_t i = own->windows_from; i < own->window_blocks.size(); ++i)
      ++of_windows[std::size_t(own->window_blocks[i])];
  for (const HeldWindow& held : held_)
    for (const int block : held.blocks) ++of_windows[std::size_t(block)];
  for (int block = 0; block < windows_.count(); ++block)
    if (windows_.users(block) != of_windows[std::size_t(block)])
      return fmt::format("block {} of windows has {} users, and counts {}", block,
                         of_windows[std::size_t(block)], windows_.users(block));
  if (free != pool_.free())
    return fmt::format("{} blocks are free, and {} said", free, pool_.free());
  if (host_.free() != host_.count()) return "blocks of the host's pool have users";
  for (int block = 0; block < host_.count(); ++block) {
    const PrefixTree::Node held = host_.content(block);
    if (held != PrefixTree::kRoot && tree_.host_block(held) != block)
      return fmt::format("what is in block {} of the host is said to be elsewhere", block);
  }
  for (int slot = 0; slot < checkpoints_.count(); ++slot) {
    const PrefixTree::Node held = checkpoints_.content(slot);
    if (held != PrefixTree::kRoot && tree_.checkpoint(held) != slot)
      return fmt::format("what checkpoint {} has seen is said to be elsewhere", slot);
  }
  for (int block = 0; block < disk_.count(); ++block) {
    const PrefixTree::Node held = disk_.content(block);
    if (held != PrefixTree::kRoot && tree_.disk_block(held) != block)
      return fmt::format("what is in block {} on disk is said to be elsewhere", block);
    if (held == PrefixTree::kRoot && disk_.users(block) > 0)
      return fmt::format("block {} on disk is being written, with nothing", block);
  }
  return {};
}

}  // namespace rigcast::engine
