#include "engine/tokenizer/piece_table.hpp"

#include "engine/tokenizer/sentence_piece.hpp"
#include "engine/tokenizer/text/byte_alphabet.hpp"
#include "engine/tokenizer/vocabulary/vocabulary_check.hpp"

namespace rigcast::engine {
namespace {

std::string piece_of(const Vocabulary& vocabulary, TokenId id) {
  const std::string& text = vocabulary.tokens[std::size_t(id)];
  const TokenType type = type_of(vocabulary, id);
  if (type == TokenType::kByte) return std::string(1, char(*spelt_byte(text)));
  if (vocabulary.kind != VocabularyKind::kBytePair) {
    const bool is_text = type == TokenType::kNormal || type == TokenType::kUserDefined;
    return is_text ? without_marks(text) : text;
  }
  // Added tokens are written verbatim, and so is a token with characters outside of the byte
  // alphabet.
  return type == TokenType::kNormal ? bytes_of_characters(text).value_or(text) : text;
}

}  // namespace

PieceTable::PieceTable(const Vocabulary& vocabulary) {
  ends_.reserve(vocabulary.tokens.size());
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    bytes_ += piece_of(vocabulary, TokenId(i));
    ends_.push_back(bytes_.size());
  }
}

std::string_view PieceTable::operator[](TokenId id) const {
  if (id < 0 || std::size_t(id) >= ends_.size()) return {};
  const std::size_t begin = id == 0 ? 0 : ends_[std::size_t(id) - 1];
  return std::string_view(bytes_).substr(begin, ends_[std::size_t(id)] - begin);
}

std::string without_marks(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const bool mark = text.starts_with(kSpaceMark);
    out += mark ? ' ' : text.front();
    text.remove_prefix(mark ? kSpaceMark.size() : 1);
  }
  return out;
}

}  // namespace rigcast::engine
