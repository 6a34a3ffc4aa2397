#pragma once
// BPE with a list of merges. Byte-level as in GPT-2: each word from the pre-tokenizer starts as its
// bytes; then neighbours are merged, in the order of the list. Or as in Gemma 4: a line starts as
// its characters, with U+2581 for spaces, and what no token is spelt like becomes tokens of bytes.

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/error.hpp"
#include "engine/tokenizer/merge_list.hpp"
#include "engine/tokenizer/text/pretokenizer.hpp"
#include "engine/tokenizer/vocabulary/vocabulary.hpp"

namespace rigcast::engine {

class BytePair {
 public:
  /// Reads a checked vocabulary. Errors: a merge that is not two tokens with a blank between them,
  /// that names or makes no token, or that is listed twice.
  static Result<BytePair> make(const Vocabulary& vocabulary, Pretokenizer pretokenizer);

  /// Appends the text's ids. A byte without a token becomes the unknown token, or nothing if the
  /// vocabulary has none.
  void encode(std::string_view text, std::vector<TokenId>& ids) const;

  bool may_lose_text() const;

  /// The number of ignored merges, of tokens that are not normal: such a merge could make a control
  /// token out of text.
  std::size_t merges_left_out() const { return merges_left_out_; }

 private:
  struct Ranked {
    std::uint32_t rank;
    TokenId id;
  };
  struct PairHash {
    std::size_t operator()(std::uint64_t key) const;
  };
  struct WordHash {
    using is_transparent = void;  // allows lookup by string_view
    std::size_t operator()(std::string_view word) const {
      return std::hash<std::string_view>{}(word);
    }
  };
  class TokenIndex;

  explicit BytePair(Pretokenizer pretokenizer) : pretokenizer_(std::move(pretokenizer)) {}

  std::optional<Error> add_merge(const Vocabulary& vocabulary, const TokenIndex& index,
                                 std::size_t i);
  void find_bytes(const Vocabulary& vocabulary, const TokenIndex& index);
  void find_words(const Vocabulary& vocabulary, const TokenIndex& index);
  void encode_word(std::string_view word, MergeList& list, std::vector<TokenId>& ids) const;
  void push_symbols(std::string_view word, MergeList& list) const;
  void append_bytes(std::string_view text, std::vector<TokenId>& ids) const;

  Pretokenizer pretokenizer_;
  std::array<TokenId, 256> byte_ids_{};                         // -1: none
  std::unordered_map<std::uint64_t, Ranked, PairHash> merges_;  // by the two ids
  // Words that become one token, whatever the merges say: all, if whole words come first; ends of
  // lines where characters are merged; otherwise none.
  std::unordered_map<std::string, TokenId, WordHash, std::equal_to<>> words_;
  bool of_characters_ = false;
  std::unordered_map<std::string, TokenId, WordHash, std::equal_to<>> characters_;
  TokenId unknown_ = -1;
  std::size_t merges_left_out_ = 0;
};

}  // namespace rigcast::engine
