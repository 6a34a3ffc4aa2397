#pragma once
// Contents of full blocks of a KV cache: a tree in which every node is a block's tokens behind
// those of its parent. Two nodes are the same only if all of their tokens are.

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace rigcast::engine {

class PrefixTree {
 public:
  using Node = std::uint32_t;
  static constexpr Node kRoot = 0;  // before the first token
  static constexpr int kNowhere = -1;

  PrefixTree() { nodes_.emplace_back(); }

  /// The node of these tokens behind those of `parent`. Hashes find it, tokens decide.
  [[nodiscard]] std::optional<Node> child(Node parent, std::span<const std::int32_t> tokens) const;
  /// Adds it. Requires that it is not there. It is forgotten when it is in no block, has no
  /// checkpoint, nobody pins it, and no node is behind it.
  Node add(Node parent, std::span<const std::int32_t> tokens);

  /// Blocks that have this content, of the pool, of the host's pool and on disk; kNowhere: none.
  [[nodiscard]] int block(Node node) const { return nodes_[node].block; }
  [[nodiscard]] int host_block(Node node) const { return nodes_[node].host_block; }
  [[nodiscard]] int disk_block(Node node) const { return nodes_[node].disk_block; }
  /// The checkpoint of a sequence's state behind this content; kNowhere: none.
  [[nodiscard]] int checkpoint(Node node) const { return nodes_[node].checkpoint; }
  void set_block(Node node, int block);
  void set_host_block(Node node, int block);
  void set_disk_block(Node node, int block);
  void set_checkpoint(Node node, int checkpoint);
  /// A pinned node stays, wherever its content is. Pins add up; the root always stays.
  void pin(Node node) {
    if (node != kRoot) ++nodes_[node].pins;
  }
  void unpin(Node node);

  /// Nodes but the root.
  [[nodiscard]] std::size_t size() const { return nodes_.size() - 1 - unused_.size(); }

 private:
  struct Content {
    std::vector<std::int32_t> tokens;
    std::uint64_t hash = 0;
    Node parent = kRoot;
    int block = kNowhere, host_block = kNowhere, disk_block = kNowhere, checkpoint = kNowhere;
    std::uint32_t children = 0, pins = 0;
  };
  static std::uint64_t hash_of(Node parent, std::span<const std::int32_t> tokens);
  void forget_unused(Node node);

  std::vector<Content> nodes_;  // by number
  std::vector<Node> unused_;    // numbers
  std::unordered_multimap<std::uint64_t, Node> by_hash_;
};

}  // namespace rigcast::engine
