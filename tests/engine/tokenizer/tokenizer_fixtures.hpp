#pragma once
// Small vocabularies whose answers can be worked out by hand.

#include <cstdio>
#include <initializer_list>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/tokenizer/text/byte_alphabet.hpp"
#include "engine/tokenizer/text/pretokenizer.hpp"
#include "engine/tokenizer/text/utf8.hpp"
#include "engine/tokenizer/tokenizer.hpp"
#include "tests/catch.hpp"

namespace rigcast::fixtures {

using engine::TokenId;
using engine::Tokenizer;
using engine::TokenType;
using engine::Vocabulary;
using engine::VocabularyKind;
using Ids = std::vector<TokenId>;
using Words = std::vector<std::string>;

/// Cuts the text by the pretokenizer of that name.
inline Words split(const char* pretokenizer, std::string_view text) {
  std::vector<std::string_view> words;
  engine::Pretokenizer::named(pretokenizer).split(text, words);
  return Words(words.begin(), words.end());
}

inline TokenId add(Vocabulary& v, std::string text, TokenType type = TokenType::kNormal,
                   float score = 0.0f) {
  v.tokens.push_back(std::move(text));
  v.types.push_back(type);
  if (v.kind == VocabularyKind::kSentencePiece) v.scores.push_back(score);
  return TokenId(v.tokens.size() - 1);
}

inline std::string byte_token(int byte) {
  char text[8];
  std::snprintf(text, sizeof text, "<0x%02X>", unsigned(byte));
  return text;
}

/// 0 <unk>, 1 <s>, 2 </s>; then, if asked for, the 256 bytes from 3 on.
inline Vocabulary sentence_piece(bool bytes) {
  Vocabulary v;
  v.kind = VocabularyKind::kSentencePiece;
  add(v, "<unk>", TokenType::kUnknown);
  v.bos = add(v, "<s>", TokenType::kControl);
  v.eos = add(v, "</s>", TokenType::kControl);
  v.unknown = 0;
  for (int byte = 0; bytes && byte < 256; ++byte) add(v, byte_token(byte), TokenType::kByte);
  return v;
}

struct Scored {
  const char* text;
  float score;
};

inline void add_scored(Vocabulary& v, std::initializer_list<Scored> tokens) {
  for (const Scored& token : tokens) add(v, token.text, TokenType::kNormal, token.score);
}

inline std::string as_characters(std::string_view bytes) {
  std::string text;
  for (const char c : bytes)
    engine::append_utf8(text, engine::byte_character(static_cast<unsigned char>(c)));
  return text;
}

/// The 256 bytes, each with its own number as id.
inline Vocabulary byte_pair(std::string pre_tokenizer) {
  Vocabulary v;
  v.kind = VocabularyKind::kBytePair;
  v.pre_tokenizer = std::move(pre_tokenizer);
  for (int byte = 0; byte < 256; ++byte) add(v, as_characters(std::string(1, char(byte))));
  return v;
}

/// Adds the merge of two byte strings and the token that it makes.
inline TokenId add_merge(Vocabulary& v, std::string_view left, std::string_view right) {
  v.merges.push_back(as_characters(left) + " " + as_characters(right));
  return add(v, as_characters(std::string(left) + std::string(right)));
}

inline Tokenizer made(Vocabulary v) {
  auto tokenizer = Tokenizer::make(std::move(v));
  if (!tokenizer) FAIL(tokenizer.error().text());
  return *tokenizer;
}

inline std::vector<std::string> pieces(const Tokenizer& tokenizer, const Ids& ids) {
  std::vector<std::string> out;
  for (const TokenId id : ids) out.emplace_back(tokenizer.piece(id));
  return out;
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t n) { return std::size_t(random_() % n); }

  std::string bytes(std::size_t most) {
    std::string out(below(most + 1), '\0');
    for (char& c : out) c = char(below(256));
    return out;
  }

  /// Letters and blanks, marks and digits, other alphabets, and anything that Unicode has.
  std::string unicode(std::size_t most) {
    std::string out;
    for (std::size_t n = below(most + 1); n > 0; --n) {
      char32_t code = 0;
      switch (below(6)) {
        case 0: code = U"  \n\r\t'.,!?-<>_"[below(15)]; break;
        case 1: code = char32_t(below(0x80)); break;
        case 2: code = char32_t('a' + below(26)); break;
        case 3: code = char32_t(0xA0 + below(0x3000)); break;
        case 4: code = char32_t(0x4E00 + below(0x5000)); break;
        default: code = char32_t(below(0x110000)); break;
      }
      if (code >= 0xD800 && code < 0xE000) continue;
      engine::append_utf8(out, code);
    }
    return out;
  }

  template <class T>
  const T& one_of(const std::vector<T>& values) {
    return values[below(values.size())];
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace rigcast::fixtures
