#pragma once
// BPE as in SentencePiece: neighbours whose combined text is a token are merged, highest score
// first. Spaces are written as U+2581.

#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/tokenizer/merge_list.hpp"
#include "engine/tokenizer/vocabulary/vocabulary.hpp"

namespace rigcast::engine {

/// U+2581, a lower block.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

class SentencePiece {
 public:
  /// The vocabulary has been checked, and outlives this object.
  explicit SentencePiece(const Vocabulary& vocabulary);

  /// Appends the text's ids. Characters without a token become the tokens of their bytes; if a byte
  /// has none, a run of such characters becomes the unknown token. A mark in the text is a space.
  void encode(std::string_view text, std::vector<TokenId>& ids) const;

  /// True if some byte has no token and there is no unknown token.
  bool may_lose_text() const { return unknown_ < 0 && !byte_complete_; }

 private:
  // The state of encoding a text.
  struct Progress {
    std::string_view text;  // with marks
    MergeList list;         // symbols of the range that is being merged
    bool in_unknown = false;
    std::vector<TokenId>& ids;
  };

  TokenId token_of(std::string_view spelling) const;
  void add_neighbours(std::string_view token);
  void merge_stretch(Progress& progress) const;
  void append_spelt_out(std::string_view symbol, Progress& progress) const;

  const Vocabulary& vocabulary_;
  std::unordered_map<std::string_view, TokenId> normal_;  // by text
  // Pairs of characters that are neighbours within a token. No merge crosses any other pair, so a
  // text is split there into short ranges, mostly words, whose lists stay in the CPU's cache.
  std::unordered_set<std::uint64_t> neighbours_;
  std::array<TokenId, 256> byte_ids_;
  bool byte_complete_ = false;
  TokenId unknown_ = -1;
};

}  // namespace rigcast::engine
