#include "engine/tokenizer/vocabulary/special_tokens.hpp"

#include <algorithm>

namespace rigcast::engine {
namespace {

std::uint64_t edge(std::uint32_t node, char byte) {
  return std::uint64_t{node} << 8 | static_cast<unsigned char>(byte);
}

}  // namespace

// Texts are read backwards: at the place where a token begins, all of it has been read, so the
// longest token that begins there is known at once, and nothing is read twice.
SpecialTokens::SpecialTokens(const std::vector<std::pair<std::string_view, TokenId>>& tokens) {
  for (const auto& [text, id] : tokens) {
    if (text.empty()) continue;
    last_bytes_.set(static_cast<unsigned char>(text.back()));
    std::uint32_t node = 0;
    for (auto c = text.rbegin(); c != text.rend(); ++c) {
      const auto [next, is_new] = edges_.emplace(edge(node, *c), std::uint32_t(nodes_.size()));
      if (is_new) nodes_.push_back({.depth = nodes_[node].depth + 1});
      node = next->second;
    }
    if (nodes_[node].id < 0) nodes_[node].id = id;
  }
  link();
}

// Links nodes to their fallbacks. A node's fallback is shorter than the node, so shorter texts are
// linked first.
void SpecialTokens::link() {
  struct Edge {
    std::uint32_t from;
    char byte;
    std::uint32_t to;
  };
  std::vector<Edge> by_depth;
  by_depth.reserve(edges_.size());
  for (const auto& [key, to] : edges_)
    by_depth.push_back({std::uint32_t(key >> 8), static_cast<char>(key & 0xFF), to});
  std::ranges::sort(by_depth, {}, [this](const Edge& e) { return nodes_[e.to].depth; });
  for (const Edge& e : by_depth) {
    Node& node = nodes_[e.to];
    if (e.from != 0) node.fallback = step(nodes_[e.from].fallback, e.byte);
    node.longest = node.id >= 0 ? e.to : nodes_[node.fallback].longest;
  }
}

std::uint32_t SpecialTokens::step(std::uint32_t node, char byte) const {
  while (true) {
    if (node == 0 && !last_bytes_.test(static_cast<unsigned char>(byte))) return 0;
    if (const auto next = edges_.find(edge(node, byte)); next != edges_.end()) return next->second;
    if (node == 0) return 0;
    node = nodes_[node].fallback;
  }
}

std::vector<SpecialTokens::Found> SpecialTokens::find_all(std::string_view text) const {
  std::vector<Found> found;
  if (edges_.empty()) return found;
  std::uint32_t node = 0;
  for (std::size_t at = text.size(); at-- > 0;) {
    node = step(node, text[at]);
    if (const Node& token = nodes_[nodes_[node].longest]; token.id >= 0)
      found.push_back({at, token.depth, token.id});
  }
  std::ranges::reverse(found);
  std::size_t done = 0;
  std::erase_if(found, [&done](const Found& token) {
    if (token.begin < done) return true;
    done = token.begin + token.length;
    return false;
  });
  return found;
}

}  // namespace rigcast::engine
