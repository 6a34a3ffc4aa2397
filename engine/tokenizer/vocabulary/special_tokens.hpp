#pragma once
// A search for special tokens, which are found in the text before anything else is done to it.

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/tokenizer/vocabulary/vocabulary.hpp"

namespace rigcast::engine {

class SpecialTokens {
 public:
  struct Found {
    std::size_t begin = 0;
    std::size_t length = 0;
    TokenId id = -1;
  };

  SpecialTokens() = default;
  /// Of tokens with equal texts the first is found. The empty text is never found.
  explicit SpecialTokens(const std::vector<std::pair<std::string_view, TokenId>>& tokens);

  /// Finds tokens from left to right, without overlaps: the leftmost one, and of several that begin
  /// there the longest; then the leftmost after it. Takes time proportional to the text's length,
  /// whatever the tokens are.
  std::vector<Found> find_all(std::string_view text) const;

 private:
  struct Node {
    std::uint32_t fallback = 0;  // failure link of the automaton
    std::uint32_t depth = 0;     // bytes read
    std::uint32_t longest =
        0;            // the node itself or, down the fallbacks, the next that ends a token
    TokenId id = -1;  // the token that ends here
  };

  std::uint32_t step(std::uint32_t node, char byte) const;
  void link();

  // An Aho-Corasick automaton of the texts read from their ends: node 0 is the root, `edges_` leads
  // from a node over a byte to the next.
  std::vector<Node> nodes_{1};
  std::unordered_map<std::uint64_t, std::uint32_t> edges_;
  std::bitset<256> last_bytes_;
};

}  // namespace rigcast::engine
