#include "engine/tokenizer/sentence_piece.hpp"

#include <algorithm>
#include <optional>

#include "engine/tokenizer/text/utf8.hpp"
#include "engine/tokenizer/vocabulary/vocabulary_check.hpp"

namespace rigcast::engine {
namespace {

std::string with_marks(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  for (const char c : text) {
    if (c == ' ') {
      out += kSpaceMark;
    } else {
      out += c;
    }
  }
  return out;
}

// The first character of a text; a byte that is not valid UTF-8 counts as one.
struct Character {
  std::size_t length;
  std::uint32_t code;
};

Character first_character(std::string_view text) {
  const std::size_t length = utf8_length(text.substr(0, 4));
  if (length > 0) return {length, std::uint32_t(utf8_decode(text.substr(0, length)))};
  constexpr std::uint32_t kPastUnicode = 0x110000;
  return {1, kPastUnicode + static_cast<unsigned char>(text.front())};
}

std::uint64_t pair_key(std::uint32_t left, std::uint32_t right) {
  return std::uint64_t{left} << 32 | right;
}

}  // namespace

SentencePiece::SentencePiece(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {
  byte_ids_.fill(-1);
  normal_.reserve(vocabulary.tokens.size());
  TokenId first_unknown = -1;
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const auto id = TokenId(i);
    const std::string& text = vocabulary.tokens[i];
    switch (type_of(vocabulary, id)) {
      case TokenType::kNormal:
        normal_.emplace(text, id);
        add_neighbours(text);
        break;
      case TokenType::kByte: byte_ids_[*spelt_byte(text)] = id; break;
      case TokenType::kUnknown:
        if (first_unknown < 0) first_unknown = id;
        break;
      // User-defined tokens have already been split off; other types do not occur in text.
      default: break;
    }
  }
  byte_complete_ = std::ranges::find(byte_ids_, -1) == byte_ids_.end();
  unknown_ = vocabulary.unknown.value_or(first_unknown);
}

void SentencePiece::add_neighbours(std::string_view token) {
  std::optional<std::uint32_t> before;
  while (!token.empty()) {
    const Character c = first_character(token);
    if (before) neighbours_.insert(pair_key(*before, c.code));
    before = c.code;
    token.remove_prefix(c.length);
  }
}

TokenId SentencePiece::token_of(std::string_view spelling) const {
  const auto found = normal_.find(spelling);
  return found == normal_.end() ? -1 : found->second;
}

void SentencePiece::encode(std::string_view text, std::vector<TokenId>& ids) const {
  const std::string marked = with_marks(text);
  Progress progress{marked, {}, false, ids};
  std::optional<std::uint32_t> before;
  for (std::size_t at = 0; at < marked.size();) {
    const Character c = first_character(progress.text.substr(at));
    if (before && !neighbours_.contains(pair_key(*before, c.code))) merge_stretch(progress);
    const TokenId id = token_of(progress.text.substr(at, c.length));
    progress.list.push({at, std::uint32_t(c.length), id});
    before = c.code;
    at += c.length;
  }
  merge_stretch(progress);
}

void SentencePiece::merge_stretch(Progress& progress) const {
  progress.list.merge_all([&](const Symbol& left, const Symbol& right) -> Merge {
    const std::size_t length = std::size_t{left.length} + right.length;
    if (length > kMaxTokenLength) return {};
    const TokenId id = token_of(progress.text.substr(left.begin, length));
    return id < 0 ? Merge{} : Merge{id, -double(vocabulary_.scores[std::size_t(id)])};
  });
  progress.list.for_each([&](const Symbol& symbol) {
    if (symbol.id < 0) {
      append_spelt_out(progress.text.substr(symbol.begin, symbol.length), progress);
    } else {
      progress.ids.push_back(symbol.id);
      progress.in_unknown = false;
    }
  });
  progress.list.clear();
}

void SentencePiece::append_spelt_out(std::string_view symbol, Progress& progress) const {
  // A mark that is no token is spelled as the space for which it stands.
  if (symbol == kSpaceMark) symbol = " ";
  const auto id_of = [&](char c) { return byte_ids_[static_cast<unsigned char>(c)]; };
  const bool complete = std::ranges::all_of(symbol, [&](char c) { return id_of(c) >= 0; });
  if (complete || unknown_ < 0) {
    for (const char c : symbol)
      if (id_of(c) >= 0) progress.ids.push_back(id_of(c));
    progress.in_unknown = false;
    return;
  }
  if (!progress.in_unknown) progress.ids.push_back(unknown_);
  progress.in_unknown = true;
}

}  // namespace rigcast::engine
