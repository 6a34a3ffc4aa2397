#pragma once
// Tokens that are found in the text before anything else is done to it.

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/tokenizer/vocabulary.hpp"

namespace rigcast::engine {

class SpecialTokens {
 public:
  struct Found {
    std::size_t begin = 0;
    std::size_t length = 0;
    TokenId id = -1;
  };

  /// A text is found from now on; of equal texts the one added first. The empty text never is.
  void add(std::string_view text, TokenId id);

  /// The leftmost token at or after `from`; of those that begin there the longest.
  std::optional<Found> find(std::string_view text, std::size_t from) const;

 private:
  std::optional<Found> longest_at(std::string_view text, std::size_t begin) const;

  // A tree of the texts: node 0 is the root, `edges_` leads from a node over a byte to the next.
  std::vector<TokenId> ends_{-1};
  std::unordered_map<std::uint64_t, std::uint32_t> edges_;
  std::bitset<256> first_bytes_;
};

}  // namespace rigcast::engine
