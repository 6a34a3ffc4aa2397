// Vocabularies that cannot be: each is an error that names what is wrong.

#include "engine/tokenizer/vocabulary/vocabulary.hpp"

#include <limits>

#include "engine/tokenizer/vocabulary/vocabulary_check.hpp"
#include "tests/engine/tokenizer/tokenizer_fixtures.hpp"

using namespace rigcast;
using namespace rigcast::fixtures;

namespace {

std::string refusal(Vocabulary v) {
  const auto tokenizer = Tokenizer::make(std::move(v));
  if (tokenizer) return "";
  CHECK(tokenizer.error().kind == ErrorKind::kBadInput);
  return tokenizer.error().message;
}

Vocabulary with_merge(std::string merge) {
  Vocabulary v = byte_pair("gpt-2");
  add_merge(v, "a", "b");
  v.merges.push_back(std::move(merge));
  return v;
}

}  // namespace

TEST_CASE("A vocabulary has tokens, and not too many", "[tokenizer]") {
  CHECK(refusal({}) == "the vocabulary has no tokens");
  Vocabulary many;
  many.kind = VocabularyKind::kBytePair;
  many.tokens.resize(engine::kMaxTokens + 1);
  CHECK(refusal(many) == "the vocabulary has 4194305 tokens; at most 4194304 are read");
  Vocabulary merges = byte_pair("gpt-2");
  merges.merges.resize(engine::kMaxMerges + 1);
  CHECK(refusal(merges) == "the vocabulary has 8388609 merges; at most 8388608 are read");
}

TEST_CASE("Scores and types are one a token", "[tokenizer]") {
  Vocabulary v = sentence_piece(true);
  v.scores.pop_back();
  CHECK(refusal(v) == "the vocabulary has 259 tokens and 258 scores");
  v.scores.clear();
  CHECK(refusal(v) == "the vocabulary has 259 tokens and 0 scores");
  v = sentence_piece(true);
  v.types.pop_back();
  CHECK(refusal(v) == "the vocabulary has 259 tokens and 258 token types");
  v = byte_pair("gpt-2");
  v.types.clear();
  CHECK(refusal(v).empty());
  v.scores = {1.0f};
  CHECK(refusal(v) == "the vocabulary has 256 tokens and 1 scores");
}

TEST_CASE("Scores are numbers", "[tokenizer]") {
  for (const float score :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    Vocabulary v = sentence_piece(false);
    add(v, "a", TokenType::kNormal, score);
    CHECK(refusal(v) == "token 3, \"a\", has a score that is no number");
  }
}

TEST_CASE("Types are those of GGUF", "[tokenizer]") {
  for (const int type : {0, 7, -1, std::numeric_limits<int>::max()}) {
    Vocabulary v = byte_pair("gpt-2");
    v.types[1] = static_cast<TokenType>(type);
    CHECK(refusal(v).find("has type " + std::to_string(type) + "; types are 1 to 6") !=
          std::string::npos);
  }
}

TEST_CASE("Byte tokens spell a byte, and each another one", "[tokenizer]") {
  for (const char* text : {"a", "", "<0x1>", "<0xGG>", "<0x00", "<0x000>", "0x0000"}) {
    Vocabulary v = sentence_piece(false);
    add(v, text, TokenType::kByte);
    CHECK(refusal(v).find("is a byte and not spelt like") != std::string::npos);
  }
  Vocabulary v = sentence_piece(false);
  add(v, "<0xAB>", TokenType::kByte);
  add(v, "<0xab>", TokenType::kByte);
  CHECK(refusal(v) == "token 4, <0xab>, is a byte that another one is too");
}

TEST_CASE("Tokens differ, but for empty ones", "[tokenizer]") {
  Vocabulary v = sentence_piece(true);
  add(v, "a\"\n");
  CHECK(refusal(v).empty());
  add(v, "a\"\n");
  CHECK(refusal(v) == "token 260, \"a\\\"\\x0a\", is in the vocabulary twice");
  v = sentence_piece(true);
  for (const TokenType type : {TokenType::kNormal, TokenType::kControl, TokenType::kUserDefined})
    add(v, "", type);
  const Tokenizer t = made(v);
  CHECK(t.decode(t.encode("abc", {false, true})) == "abc");
}

TEST_CASE("Tokens are no books", "[tokenizer]") {
  Vocabulary v = sentence_piece(true);
  add(v, std::string(4096, 'a'));
  CHECK(refusal(v).empty());
  add(v, std::string(4097, 'a'));
  CHECK(refusal(v) == "token 260 has 4097 bytes; at most 4096 are read");
}

TEST_CASE("Tokens together are no library", "[tokenizer]") {
  Vocabulary v = byte_pair("gpt-2");
  for (int i = 0; i < 8192; ++i) {
    v.tokens.push_back(std::to_string(10'000 + i));
    v.tokens.back().resize(4096, 'a');
  }
  v.types.clear();
  CHECK(refusal(v) == "the tokens have more than 33554432 bytes together");
}

TEST_CASE("Ids name tokens of the vocabulary", "[tokenizer]") {
  using Member = std::optional<TokenId> Vocabulary::*;
  const std::pair<Member, std::string> ids[] = {
      {&Vocabulary::bos, "BOS"}, {&Vocabulary::eos, "EOS"}, {&Vocabulary::unknown, "unknown"}};
  for (const auto& [member, name] : ids) {
    for (const TokenId id :
         {-1, 256, std::numeric_limits<TokenId>::max(), std::numeric_limits<TokenId>::min()}) {
      Vocabulary v = byte_pair("gpt-2");
      v.*member = id;
      CHECK(refusal(v) == "the " + name + " token has id " + std::to_string(id) +
                              "; the vocabulary has ids 0 to 255");
    }
    Vocabulary v = byte_pair("gpt-2");
    v.*member = 255;
    CHECK(refusal(v).empty());
  }
}

TEST_CASE("Ids that text does not need may name no token", "[tokenizer]") {
  using Member = std::optional<TokenId> Vocabulary::*;
  const std::pair<Member, std::string> ids[] = {{&Vocabulary::eot, "end-of-turn"},
                                                {&Vocabulary::eom, "end-of-message"},
                                                {&Vocabulary::pad, "padding"}};
  for (const auto& [member, name] : ids) {
    for (const TokenId id : {-1, 256, std::numeric_limits<TokenId>::max()}) {
      Vocabulary v = byte_pair("gpt-2");
      v.*member = id;
      const Tokenizer t = made(v);
      REQUIRE(t.warnings().size() == 1 + made(byte_pair("gpt-2")).warnings().size());
      CHECK(t.warnings().front() == "the " + name + " token has id " + std::to_string(id) +
                                        "; the vocabulary has ids 0 to 255: it is not used");
      CHECK_FALSE(t.pad());
    }
    Vocabulary v = byte_pair("gpt-2");
    v.*member = 255;
    CHECK(made(v).warnings().size() == made(byte_pair("gpt-2")).warnings().size());
  }
}

TEST_CASE("What is to be added is there", "[tokenizer]") {
  Vocabulary v = byte_pair("gpt-2");
  v.add_bos = true;
  CHECK(refusal(v) == "a BOS token is to be added and the vocabulary names none");
  v.bos = 0;
  CHECK(refusal(v).empty());
  v.add_eos = true;
  CHECK(refusal(v) == "an EOS token is to be added and the vocabulary names none");
}

TEST_CASE("Merges are two tokens that make one", "[tokenizer]") {
  for (const char* merge : {"", "a", "ab", " ", "a ", " a"})
    CHECK(refusal(with_merge(merge)).find("is not two tokens and a blank between them") !=
          std::string::npos);
  CHECK(refusal(with_merge("x yy")) == "merge 1, \"x yy\", names \"yy\", which is no token");
  CHECK(refusal(with_merge("xx y")) == "merge 1, \"xx y\", names \"xx\", which is no token");
  CHECK(refusal(with_merge("x y")) == "merge 1, \"x y\", makes \"xy\", which is no token");
  CHECK(refusal(with_merge("a  b")) == "merge 1, \"a  b\", names \" b\", which is no token");
  CHECK(refusal(with_merge("a b")) == "merge 1, \"a b\", is listed twice");
}

TEST_CASE("Texts of strangers are shown without what a terminal obeys", "[tokenizer]") {
  CHECK(engine::in_quotes("\x1b[31m\\\"é") == "\"\\x1b[31m\\\\\\\"\\xc3\\xa9\"");
  CHECK(engine::in_quotes(std::string(100, 'a')) == "\"" + std::string(48, 'a') + "...\"");
}

TEST_CASE("A copy of a tokenizer outlives the original", "[tokenizer]") {
  std::optional<Tokenizer> original = made(sentence_piece(true));
  const Tokenizer copy = *original;
  original.reset();
  CHECK(copy.decode(copy.encode("héllo")) == "héllo");
}
