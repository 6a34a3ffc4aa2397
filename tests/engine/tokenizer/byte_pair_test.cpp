// Ranked merges over bytes, inside words.

#include "engine/tokenizer/byte_pair.hpp"

#include "tests/engine/tokenizer/tokenizer_fixtures.hpp"

using namespace rigcast;
using namespace rigcast::fixtures;

namespace {

Ids plain(const Tokenizer& t, std::string_view text) { return t.encode(text, {false, false}); }

}  // namespace

TEST_CASE("Every byte has a visible character of its own", "[tokenizer]") {
  CHECK(as_characters("A") == "A");
  CHECK(as_characters(" ") == "Ġ");
  CHECK(as_characters("\n") == "Ċ");
  CHECK(as_characters(std::string(1, '\0')) == "Ā");
  CHECK(as_characters("\x7f") == "ġ");
  CHECK(as_characters("\xa0") == "ł");
  CHECK(as_characters("\xad") == "Ń");
  CHECK(as_characters("\xff") == "ÿ");
  CHECK(as_characters("你") == "ä½ł");
  for (int byte = 0; byte < 256; ++byte) {
    const std::string one(1, char(byte));
    CHECK(engine::bytes_of_characters(as_characters(one)) == one);
  }
  CHECK(engine::bytes_of_characters("Ġa") == " a");
  CHECK_FALSE(engine::bytes_of_characters("a b"));
  CHECK_FALSE(engine::bytes_of_characters("你"));
  CHECK_FALSE(engine::bytes_of_characters("\xff"));
}

TEST_CASE("The merge listed first is done first", "[tokenizer]") {
  Vocabulary v = byte_pair("gpt-2");
  const TokenId ab = add_merge(v, "a", "b");
  const TokenId bc = add_merge(v, "b", "c");
  const TokenId abc = add_merge(v, "ab", "c");
  CHECK(plain(made(v), "abc") == Ids{abc});
  CHECK(plain(made(v), "bc") == Ids{bc});
  std::swap(v.merges[0], v.merges[1]);  // now bc first: a is left over
  CHECK(plain(made(v), "abc") == Ids{'a', bc});
  CHECK(plain(made(v), "abab") == Ids{ab, ab});
}

TEST_CASE("The same merge is done from the left", "[tokenizer]") {
  Vocabulary v = byte_pair("gpt-2");
  const TokenId aa = add_merge(v, "a", "a");
  const TokenId aaa = add_merge(v, "aa", "a");
  const Tokenizer t = made(v);
  CHECK(plain(t, "aa") == Ids{aa});
  CHECK(plain(t, "aaa") == Ids{aaa});
  CHECK(plain(t, "aaaa") == Ids{aa, aa});
  CHECK(plain(t, "aaaaa") == Ids{aa, aaa});
}

TEST_CASE("Two ways to the same token are two merges", "[tokenizer]") {
  Vocabulary v = byte_pair("gpt-2");
  add_merge(v, "a", "b");
  const TokenId abc = add_merge(v, "ab", "c");
  add_merge(v, "b", "c");
  v.merges.push_back("a bc");
  CHECK(plain(made(v), "abc") == Ids{abc});
  std::rotate(v.merges.begin(), v.merges.begin() + 2, v.merges.end());  // bc, a+bc, ab, ab+c
  CHECK(plain(made(v), "abc") == Ids{abc});
}

TEST_CASE("A token that no merges lead to is not made", "[tokenizer]") {
  Vocabulary v = byte_pair("gpt-2");
  add(v, "abc");
  CHECK(plain(made(v), "abc") == Ids{'a', 'b', 'c'});
}

TEST_CASE("Llama 3 takes a word that is a token before it merges", "[tokenizer]") {
  for (const char* name : {"llama-bpe", "llama-v3", "llama3"}) {
    Vocabulary v = byte_pair(name);
    const TokenId whole = add(v, as_characters(" 你好"));
    const TokenId ab = add_merge(v, "a", "b");
    const TokenId bc = add_merge(v, "b", "c");
    const TokenId abc = add(v, "abc");
    const Tokenizer t = made(v);
    CHECK(plain(t, "abc") == Ids{abc});
    CHECK(plain(t, "abcd") == Ids{ab, 'c', 'd'});
    CHECK(plain(t, "bc bc") == Ids{bc, ' ', bc});
    CHECK(plain(t, " 你好") == Ids{whole});
  }
  Vocabulary v = byte_pair("qwen2");
  add(v, "abc");
  CHECK(plain(made(v), "abc") == Ids{'a', 'b', 'c'});
}

TEST_CASE("Merges do not cross words", "[tokenizer]") {
  Vocabulary v = byte_pair("gpt-2");
  const TokenId spaced = add_merge(v, " ", "a");
  add_merge(v, "a", " ");
  add_merge(v, "1", "a");
  const Tokenizer t = made(v);
  CHECK(plain(t, "a a") == Ids{'a', spaced});
  CHECK(plain(t, "1a") == Ids{'1', 'a'});
}

TEST_CASE("Bytes that are no UTF-8 are kept", "[tokenizer]") {
  Vocabulary v = byte_pair("llama-bpe");
  const TokenId pair = add_merge(v, "\xff", "\xfe");
  const Tokenizer t = made(v);
  const std::string text = "a\xff\xfe b\xc3";
  CHECK(plain(t, text) == Ids{'a', pair, ' ', 'b', 0xC3});
  CHECK(t.decode(plain(t, text)) == text);
}

TEST_CASE("Added tokens decode as they are written, normal ones as bytes", "[tokenizer]") {
  Vocabulary v = byte_pair("gpt-2");
  const TokenId normal = add(v, "Ġé");
  const TokenId added = add(v, "Ġé!", TokenType::kUserDefined);
  const TokenId foreign = add(v, "你");
  const Tokenizer t = made(v);
  CHECK(t.piece(normal) == " \xe9");
  CHECK(t.piece(added) == "Ġé!");
  CHECK(t.piece(foreign) == "你");
  CHECK(t.decode(Ids{'a', ' ', 'b'}) == "a b");
  CHECK(t.decode(Ids{' ', 'b'}) == " b");  // no space of ours to drop
}

TEST_CASE("Llama 3 begins with BOS unless its file says otherwise", "[tokenizer]") {
  Vocabulary v = byte_pair("llama-bpe");
  CHECK(made(v).encode("a") == Ids{'a'});
  v.bos = add(v, "<|begin_of_text|>", TokenType::kControl);
  CHECK(made(v).encode("a") == Ids{*v.bos, 'a'});
  v.pre_tokenizer = "qwen2";
  CHECK(made(v).encode("a") == Ids{'a'});
  v.add_bos = true;
  CHECK(made(v).encode("a") == Ids{*v.bos, 'a'});
  v.pre_tokenizer = "llama-bpe";
  v.add_bos = false;
  CHECK(made(v).encode("a") == Ids{'a'});
}

TEST_CASE("A byte without a token is unknown, or is left out with a warning", "[tokenizer]") {
  Vocabulary v = byte_pair("gpt-2");
  v.types['x'] = TokenType::kUnused;
  CHECK(plain(made(v), "axxb") == Ids{'a', 'b'});
  CHECK(made(v).warnings().size() == 1);
  v.unknown = add(v, "<unk>", TokenType::kUnknown);
  CHECK(plain(made(v), "axxb") == Ids{'a', *v.unknown, *v.unknown, 'b'});
  CHECK(made(v).warnings().empty());
}

TEST_CASE("No merge makes a control token", "[tokenizer]") {
  Vocabulary v = byte_pair("gpt-2");
  const TokenId ab = add_merge(v, "a", "b");
  CHECK(plain(made(v), "ab") == Ids{ab});
  v.types.back() = TokenType::kControl;
  CHECK(plain(made(v), "ab") == Ids{'a', 'b'});
  REQUIRE(made(v).warnings().size() == 1);
  CHECK(made(v).warnings()[0].find("1 merges") == 0);
}

namespace {

// As in Gemma 4: characters, a space's mark, merges of them, and bytes for the rest.
Vocabulary characters() {
  Vocabulary v;
  v.kind = VocabularyKind::kCharacterPair;
  v.pre_tokenizer = "gemma4";
  add(v, "<pad>", TokenType::kControl);
  v.bos = add(v, "<bos>", TokenType::kControl);
  for (int byte = 0; byte < 256; ++byte) add(v, byte_token(byte), TokenType::kByte);
  for (const char* text : {"a", "b", "\u00e9", "\n", "\n\n", "\u2581", "\u2581a", "\u2581ab",
                           "b\u00e9", "\u2581\u2581"})
    add(v, text);
  v.merges = {"\u2581 a", "\u2581a b", "b \u00e9", "\u2581 \u2581"};
  v.add_bos = true;
  return v;
}

std::vector<std::string> spelt(const Tokenizer& t, std::string_view text) {
  std::vector<std::string> out;
  for (const TokenId id : t.encode(text, {.add_special = false})) out.emplace_back(t.piece(id));
  return out;
}

}  // namespace

TEST_CASE("Characters merge by rank, with marks for spaces", "[tokenizer]") {
  const Tokenizer t = made(characters());
  using Pieces = std::vector<std::string>;
  CHECK(spelt(t, "a ab") == Pieces{"a", " ab"});
  CHECK(spelt(t, "ab\u00e9") == Pieces{"a", "b\u00e9"});
  CHECK(spelt(t, "  a") == Pieces{" ", " a"});
  CHECK(spelt(t, "a\n\nb\n\n\n") == Pieces{"a", "\n\n", "b", "\n", "\n", "\n"});
  // What no token is spelt like becomes bytes, and so does what is no text.
  CHECK(spelt(t, "c\u00fc") == Pieces{"c", "\xC3", "\xBC"});
  CHECK(spelt(t, "a\xFF") == Pieces{"a", "\xFF"});
  CHECK(t.encode("a").front() == *t.bos());
  for (const std::string text : {"a ab\u00e9 \u2581", "  \n x\u20ac", "\xFF\xC3 a", ""}) {
    const bool has_mark = text.find("\u2581") != text.npos;
    if (!has_mark) CHECK(t.decode(t.encode(text)) == text);
  }
  CHECK(t.warnings().empty());
}
