// Tokens that are found in the text as they are written.

#include "engine/tokenizer/special_tokens.hpp"

#include "tests/engine/tokenizer/tokenizer_fixtures.hpp"

using namespace rigcast;
using namespace rigcast::fixtures;

namespace {

// 256 <|im|>, 257 <|im|>end (both control), 258 "++" (user-defined).
Vocabulary chat() {
  Vocabulary v = byte_pair("qwen2");
  add(v, "<|im|>", TokenType::kControl);
  add(v, "<|im|>end", TokenType::kControl);
  add(v, "++", TokenType::kUserDefined);
  return v;
}

Ids parsed(const Tokenizer& t, std::string_view text) { return t.encode(text, {false, true}); }
Ids plain(const Tokenizer& t, std::string_view text) { return t.encode(text, {false, false}); }

}  // namespace

TEST_CASE("The leftmost special token is found, of those there the longest", "[tokenizer]") {
  engine::SpecialTokens s;
  s.add("abc", 1);
  s.add("abcde", 2);
  s.add("cdefgh", 3);
  s.add("b", 4);
  s.add("", 5);
  s.add("abc", 6);
  const auto at = [&](std::string_view text, std::size_t from) {
    const auto found = s.find(text, from);
    return found ? Ids{TokenId(found->begin), TokenId(found->length), found->id} : Ids{};
  };
  CHECK(at("xabcdx", 0) == Ids{1, 3, 1});
  CHECK(at("xabcdex", 0) == Ids{1, 5, 2});
  CHECK(at("abcdefgh", 0) == Ids{0, 5, 2});  // not 3, which is longer and begins later
  CHECK(at("abcdefgh", 1) == Ids{1, 1, 4});
  CHECK(at("abcdefgh", 2) == Ids{2, 6, 3});
  CHECK(at("ab", 0) == Ids{1, 1, 4});
  CHECK(at("xyz", 0).empty());
  CHECK(at("", 0).empty());
  CHECK_FALSE(engine::SpecialTokens().find("a", 0));
}

TEST_CASE("Control tokens in the text are parsed only when asked for", "[tokenizer]") {
  const Tokenizer t = made(chat());
  CHECK(parsed(t, "a<|im|>b") == Ids{'a', 256, 'b'});
  CHECK(parsed(t, "<|im|><|im|>end") == Ids{256, 257});
  CHECK(parsed(t, "<|im|>en") == Ids{256, 'e', 'n'});
  CHECK(parsed(t, "<|im|") == Ids{'<', '|', 'i', 'm', '|'});
  CHECK(plain(t, "<|im|>") == Ids{'<', '|', 'i', 'm', '|', '>'});
}

TEST_CASE("User-defined tokens are always parsed", "[tokenizer]") {
  const Tokenizer t = made(chat());
  CHECK(plain(t, "i++") == Ids{'i', 258});
  CHECK(parsed(t, "i+++") == Ids{'i', 258, '+'});
}

TEST_CASE("Control tokens are written out only when asked for", "[tokenizer]") {
  const Tokenizer t = made(chat());
  const Ids ids = {'a', 256, 'b', 258};
  CHECK(t.decode(ids) == "ab++");
  CHECK(t.decode(ids, {.special = true}) == "a<|im|>b++");
  CHECK(t.is_control(256));
  CHECK_FALSE(t.is_control(258));
  CHECK_FALSE(t.is_control(-1));
  CHECK_FALSE(t.is_control(1'000'000));
}

TEST_CASE("Words end at special tokens", "[tokenizer]") {
  Vocabulary v = chat();
  const TokenId two = add_merge(v, "a", "a");
  CHECK(parsed(made(v), "aa<|im|>aaa") == Ids{two, 256, two, 'a'});
  CHECK(parsed(made(v), "a<|im|>a") == Ids{'a', 256, 'a'});
}

TEST_CASE("A space comes before text at the beginning and after control tokens", "[tokenizer]") {
  Vocabulary v = sentence_piece(true);
  const TokenId mark = add(v, "▁");
  const TokenId spaced = add(v, "▁a");
  const TokenId plus = add(v, "+▁+", TokenType::kUserDefined);
  const Tokenizer t = made(v);
  const TokenId a = 3 + 'a';
  CHECK(parsed(t, "a</s>a") == Ids{spaced, 2, spaced});
  CHECK(parsed(t, "<s></s>") == Ids{1, 2});
  CHECK(t.encode("<s>a", {true, true}) == Ids{1, 1, spaced});
  // A user-defined token is text: its spaces are marks, and the first space comes before it.
  CHECK(parsed(t, "+ +a") == Ids{mark, plus, a});
  CHECK(parsed(t, "a+ +a") == Ids{spaced, plus, a});
  CHECK(parsed(t, "<s>+ +") == Ids{1, mark, plus});
  for (const char* text : {"a</s>a", "<s></s> a", "+ +a", "a+ +a", "<s>+ +", " </s> ", "<unk> a"})
    CHECK(t.decode(parsed(t, text), {.special = true}) == text);
}

TEST_CASE("The unknown token is parsed like a control token, and stays visible", "[tokenizer]") {
  Vocabulary v = sentence_piece(true);
  v.add_space_prefix = false;
  const Tokenizer t = made(v);
  CHECK(parsed(t, "<unk>") == Ids{0});
  CHECK(plain(t, "<unk>").size() == 5);
  CHECK(t.decode(Ids{0}) == "<unk>");
}

TEST_CASE("Generation ends at EOS and at EOT", "[tokenizer]") {
  Vocabulary v = chat();
  v.eos = 256;
  v.eot = 257;
  const Tokenizer t = made(v);
  CHECK(t.ends_generation(256));
  CHECK(t.ends_generation(257));
  CHECK_FALSE(t.ends_generation(0));
  CHECK_FALSE(made(chat()).ends_generation(0));
}
