#include "engine/serve/prefix_tree.hpp"

#include <algorithm>

#include "core/base/error.hpp"

namespace rigcast::engine {

std::uint64_t PrefixTree::hash_of(Node parent, std::span<const std::int32_t> tokens) {
  // Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014 (SplitMix64).
  std::uint64_t hash = parent;
  for (const std::int32_t token : tokens) {
    hash += 0x9e3779b97f4a7c15 + std::uint32_t(token);
    hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9;
    hash = (hash ^ (hash >> 27)) * 0x94d049bb133111eb;
    hash ^= hash >> 31;
  }
  return hash;
}

std::optional<PrefixTree::Node> PrefixTree::child(Node parent,
                                                  std::span<const std::int32_t> tokens) const {
  const auto [begin, end] = by_hash_.equal_range(hash_of(parent, tokens));
  for (auto at = begin; at != end; ++at) {
    const Content& content = nodes_[at->second];
    if (content.parent == parent && std::ranges::equal(content.tokens, tokens)) return at->second;
  }
  return std::nullopt;
}

PrefixTree::Node PrefixTree::add(Node parent, std::span<const std::int32_t> tokens) {
  if (unused_.empty()) {
    nodes_.emplace_back();
    unused_.push_back(Node(nodes_.size() - 1));
  }
  const Node node = unused_.back();
  Content content;
  content.tokens.assign(tokens.begin(), tokens.end());
  content.hash = hash_of(parent, tokens);
  content.parent = parent;
  by_hash_.emplace(content.hash, node);
  unused_.pop_back();
  nodes_[node] = std::move(content);
  ++nodes_[parent].children;
  return node;
}

void PrefixTree::set_block(Node node, int block) {
  nodes_[node].block = block;
  forget_unused(node);
}

void PrefixTree::set_host_block(Node node, int block) {
  nodes_[node].host_block = block;
  forget_unused(node);
}

void PrefixTree::set_disk_block(Node node, int block) {
  nodes_[node].disk_block = block;
  forget_unused(node);
}

void PrefixTree::set_checkpoint(Node node, int checkpoint) {
  nodes_[node].checkpoint = checkpoint;
  forget_unused(node);
}

void PrefixTree::unpin(Node node) {
  if (node == kRoot) return;
  RIGCAST_ASSERT(nodes_[node].pins > 0);
  --nodes_[node].pins;
  forget_unused(node);
}

// The node, and those before it that were there for its sake alone.
void PrefixTree::forget_unused(Node node) {
  while (node != kRoot) {
    Content& content = nodes_[node];
    if (content.block != kNowhere || content.host_block != kNowhere ||
        content.disk_block != kNowhere || content.checkpoint != kNowhere || content.children > 0 ||
        content.pins > 0)
      return;
    const auto [begin, end] = by_hash_.equal_range(content.hash);
    by_hash_.erase(
        std::find_if(begin, end, [&](const auto& entry) { return entry.second == node; }));
    const Node parent = content.parent;
    content = {};
    unused_.push_back(node);
    --nodes_[parent].children;
    node = parent;
  }
}

}  // namespace rigcast::engine
