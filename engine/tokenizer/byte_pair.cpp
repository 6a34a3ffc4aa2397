#include "engine/tokenizer/byte_pair.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/tokenizer/sentence_piece.hpp"
#include "engine/tokenizer/text/byte_alphabet.hpp"
#include "engine/tokenizer/text/utf8.hpp"
#include "engine/tokenizer/vocabulary/vocabulary_check.hpp"

namespace rigcast::engine {
namespace {

std::uint64_t key_of(TokenId left, TokenId right) {
  return std::uint64_t(std::uint32_t(left)) << 32 | std::uint32_t(right);
}

}  // namespace

// An index of tokens by their text, used while a vocabulary is read.
class BytePair::TokenIndex {
 public:
  explicit TokenIndex(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {
    by_text_.reserve(vocabulary.tokens.size());
    for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i)
      by_text_.emplace(vocabulary.tokens[i], TokenId(i));
  }

  std::optional<TokenId> find(std::string_view text) const {
    const auto found = by_text_.find(text);
    if (found == by_text_.end()) return std::nullopt;
    return found->second;
  }
  bool is_normal(TokenId id) const { return type_of(vocabulary_, id) == TokenType::kNormal; }
  TokenId normal(std::string_view text) const {
    const auto id = find(text);
    return id && is_normal(*id) ? *id : -1;
  }

 private:
  const Vocabulary& vocabulary_;
  std::unordered_map<std::string_view, TokenId> by_text_;
};

// Ids are small and dense: without mixing their bits, most buckets of the table would stay empty.
std::size_t BytePair::PairHash::operator()(std::uint64_t key) const {
  key ^= key >> 32;
  key *= 0x9E3779B97F4A7C15u;
  return std::size_t(key ^ key >> 29);
}

Result<BytePair> BytePair::make(const Vocabulary& vocabulary, Pretokenizer pretokenizer) {
  BytePair out(std::move(pretokenizer));
  const TokenIndex index(vocabulary);
  out.of_characters_ = vocabulary.kind == VocabularyKind::kCharacterPair;
  out.find_bytes(vocabulary, index);
  out.unknown_ = vocabulary.unknown.value_or(-1);
  out.merges_.reserve(vocabulary.merges.size());
  for (std::size_t i = 0; i < vocabulary.merges.size(); ++i)
    if (auto error = out.add_merge(vocabulary, index, i)) return *error;
  out.find_words(vocabulary, index);
  return out;
}

void BytePair::find_bytes(const Vocabulary& vocabulary, const TokenIndex& index) {
  byte_ids_.fill(-1);
  if (of_characters_) {
    for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i)
      if (type_of(vocabulary, TokenId(i)) == TokenType::kByte)
        byte_ids_[*spelt_byte(vocabulary.tokens[i])] = TokenId(i);
    return;
  }
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::string text;
    append_utf8(text, byte_character(static_cast<unsigned char>(byte)));
    byte_ids_[byte] = index.normal(text);
  }
}

void BytePair::find_words(const Vocabulary& vocabulary, const TokenIndex& index) {
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const auto id = TokenId(i);
    const std::string& text = vocabulary.tokens[i];
    if (!index.is_normal(id) || text.empty()) continue;
    if (of_characters_) {
      if (text.find_first_not_of('\n') == text.npos) words_.emplace(text, id);
      if (utf8_length(text) == text.size()) characters_.emplace(text, id);
    } else if (pretokenizer_.whole_words_first()) {
      if (auto bytes = bytes_of_characters(text)) words_.emplace(std::move(*bytes), id);
    }
  }
}

std::optional<Error> BytePair::add_merge(const Vocabulary& vocabulary, const TokenIndex& index,
                                         std::size_t i) {
  const std::string_view merge = vocabulary.merges[i];
  // The search begins at 1, because a token may begin with a blank in vocabularies that are not of
  // bytes.
  const std::size_t blank = merge.find(' ', 1);
  if (blank == std::string_view::npos || blank + 1 == merge.size())
    return bad_input(fmt::format("merge {}, {}, is not two tokens and a blank between them", i,
                                 in_quotes(merge)));
  const std::string left(merge.substr(0, blank)), right(merge.substr(blank + 1));
  TokenId ids[3];
  int known = 0;
  for (const std::string& text : {left, right, left + right}) {
    const auto id = index.find(text);
    if (!id)
      return bad_input(fmt::format("merge {}, {}, {} {}, which is no token", i, in_quotes(merge),
                                   known < 2 ? "names" : "makes", in_quotes(text)));
    ids[known++] = *id;
  }
  if (!std::ranges::all_of(ids, [&](TokenId id) { return index.is_normal(id); })) {
    ++merges_left_out_;
    return std::nullopt;
  }
  if (!merges_.emplace(key_of(ids[0], ids[1]), Ranked{std::uint32_t(i), ids[2]}).second)
    return bad_input(fmt::format("merge {}, {}, is listed twice", i, in_quotes(merge)));
  return std::nullopt;
}

bool BytePair::may_lose_text() const {
  return unknown_ < 0 && std::ranges::find(byte_ids_, -1) != byte_ids_.end();
}

void BytePair::encode(std::string_view text, std::vector<TokenId>& ids) const {
  std::string marked;
  if (of_characters_) {
    for (const char c : text) c == ' ' ? marked += kSpaceMark : marked += c;
    text = marked;
  }
  std::vector<std::string_view> words;
  pretokenizer_.split(text, words);
  MergeList list;
  for (const std::string_view word : words) encode_word(word, list, ids);
}

void BytePair::encode_word(std::string_view word, MergeList& list,
                           std::vector<TokenId>& ids) const {
  if (const auto whole = words_.find(word); whole != words_.end()) {
    ids.push_back(whole->second);
    return;
  }
  list.clear();
  push_symbols(word, list);
  list.merge_all([&](const Symbol& left, const Symbol& right) -> Merge {
    // What has no token (id -1) is in no merge.
    const auto found = merges_.find(key_of(left.id, right.id));
    if (found == merges_.end()) return {};
    return {found->second.id, double(found->second.rank)};
  });
  list.for_each([&](const Symbol& symbol) {
    if (symbol.id >= 0)
      ids.push_back(symbol.id);
    else
      append_bytes(word.substr(symbol.begin, symbol.length), ids);
  });
}

void BytePair::push_symbols(std::string_view word, MergeList& list) const {
  for (std::size_t i = 0; i < word.size();) {
    if (!of_characters_) {
      list.push({i, 1, byte_ids_[static_cast<unsigned char>(word[i])]});
      ++i;
      continue;
    }
    // An invalid byte is a symbol of its own.
    const std::size_t length = std::max<std::size_t>(utf8_length(word.substr(i, 4)), 1);
    const auto found = characters_.find(word.substr(i, length));
    list.push({i, std::uint32_t(length), found == characters_.end() ? -1 : found->second});
    i += length;
  }
}

void BytePair::append_bytes(std::string_view text, std::vector<TokenId>& ids) const {
  for (const char c : text) {
    const TokenId byte = of_characters_ ? byte_ids_[static_cast<unsigned char>(c)] : -1;
    const TokenId id = byte < 0 ? unknown_ : byte;
    if (id >= 0) ids.push_back(id);
  }
}

}  // namespace rigcast::engine
