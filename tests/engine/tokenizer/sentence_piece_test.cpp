// Which neighbours merge, in which order, and what becomes of the rest.

#include "engine/tokenizer/sentence_piece.hpp"

#include "tests/engine/tokenizer/tokenizer_fixtures.hpp"

using namespace rigcast;
using namespace rigcast::fixtures;

namespace {

// 3 to 10.
Vocabulary letters() {
  Vocabulary v = sentence_piece(false);
  add_scored(v, {{"▁", -13}, {"a", -10}, {"b", -11}, {"c", -12}, {"ab", -1}, {"bc", -2}});
  add_scored(v, {{"abc", -3}, {"▁a", -0.5f}});
  return v;
}

Ids plain(const Tokenizer& t, std::string_view text) { return t.encode(text, {false, false}); }

Tokenizer without_prefix(Vocabulary v) {
  v.add_space_prefix = false;
  return made(std::move(v));
}

}  // namespace

TEST_CASE("The pair of the highest score merges first", "[tokenizer]") {
  // ab (-1) before bc (-2), then ab + c.
  CHECK(plain(without_prefix(letters()), "abc") == Ids{9});
  // _a (-0.5) before ab, which then has lost its a; bc is left.
  CHECK(plain(made(letters()), "abc") == Ids{10, 8});
}

TEST_CASE("A pair that is no token stays apart, whatever it could grow into", "[tokenizer]") {
  Vocabulary v = sentence_piece(false);
  add_scored(v, {{"a", 0}, {"b", 0}, {"c", 0}, {"abc", 0}});
  CHECK(plain(without_prefix(v), "abc") == Ids{3, 4, 5});
}

TEST_CASE("Of equal scores the leftmost pair merges first", "[tokenizer]") {
  Vocabulary v = sentence_piece(false);
  add_scored(v, {{"a", 0}, {"aa", -1}, {"aaa", -2}});
  const Tokenizer t = without_prefix(v);
  CHECK(plain(t, "aa") == Ids{4});
  CHECK(plain(t, "aaa") == Ids{5});       // aa a, then aaa
  CHECK(plain(t, "aaaa") == Ids{4, 4});   // aa aa: both merge before any aaa does
  CHECK(plain(t, "aaaaa") == Ids{4, 5});  // aa aa a: aaa only fits at the end
  CHECK(plain(t, "aaaaaa") == Ids{4, 4, 4});
}

TEST_CASE("Scores order merges, not ids or lengths", "[tokenizer]") {
  Vocabulary v = sentence_piece(false);
  add_scored(v, {{"x", 0}, {"y", 0}, {"z", 0}, {"xy", -7}, {"yz", -5}});
  CHECK(plain(without_prefix(v), "xyz") == Ids{3, 7});
  v.scores[6] = -4;
  CHECK(plain(without_prefix(v), "xyz") == Ids{6, 5});
}

TEST_CASE("Spaces are marks, and one is put before the text", "[tokenizer]") {
  const Tokenizer t = made(letters());
  CHECK(plain(t, "a") == Ids{10});
  CHECK(plain(t, " a") == Ids{3, 10});
  CHECK(plain(t, "a a") == Ids{10, 10});
  CHECK(plain(t, " ") == Ids{3, 3});
  CHECK(plain(t, "").empty());
  CHECK(plain(without_prefix(letters()), " a") == Ids{10});
  CHECK(t.decode(Ids{10, 10}) == "a a");
  CHECK(t.decode(Ids{3, 10}) == " a");
  CHECK(t.decode(Ids{10, 10}, {.continues = true}) == " a a");
  CHECK(without_prefix(letters()).decode(Ids{10, 10}) == " a a");
}

TEST_CASE("BOS is added by default, EOS if the vocabulary says so", "[tokenizer]") {
  Vocabulary v = letters();
  CHECK(made(v).encode("a") == Ids{1, 10});
  CHECK(made(v).encode("") == Ids{1});
  v.add_bos = false;
  CHECK(made(v).encode("a") == Ids{10});
  v.add_eos = true;
  CHECK(made(v).encode("a") == Ids{10, 2});
  CHECK(made(v).encode("a", {.add_special = false}) == Ids{10});
  v.bos.reset();
  v.add_bos.reset();
  CHECK_FALSE(made(v).adds_bos());
}

TEST_CASE("What no token spells becomes its bytes", "[tokenizer]") {
  Vocabulary v = sentence_piece(true);
  add_scored(v, {{"▁", 0}, {"a", 0}});  // 259, 260
  const Tokenizer t = made(v);
  CHECK(plain(t, "é") == Ids{259, 3 + 0xC3, 3 + 0xA9});
  CHECK(plain(t, "a\n") == Ids{259, 260, 3 + 0x0A});
  CHECK(plain(t, "\xff") == Ids{259, 3 + 0xFF});
  CHECK(t.decode(plain(t, "é\xff\n")) == "é\xff\n");
  CHECK(t.piece(3 + 0xC3) == "\xC3");
}

TEST_CASE("A vocabulary of bytes alone spells spaces as bytes", "[tokenizer]") {
  const Tokenizer t = made(sentence_piece(true));
  CHECK(plain(t, "a b") == Ids{3 + 0x20, 3 + 'a', 3 + 0x20, 3 + 'b'});
  CHECK(t.decode(plain(t, "a b")) == "a b");
}

TEST_CASE("A run of what nothing spells is one unknown token", "[tokenizer]") {
  const Tokenizer t = made(letters());
  CHECK(plain(t, "xyz") == Ids{3, 0});
  CHECK(plain(t, "xax") == Ids{3, 0, 4, 0});
  CHECK(t.decode(plain(t, "xax")) == "<unk>a<unk>");
  CHECK(t.warnings().empty());
}

TEST_CASE("A character with a byte that has no token is unknown as a whole", "[tokenizer]") {
  Vocabulary v = sentence_piece(false);
  add(v, "<0xC3>", TokenType::kByte);
  CHECK(plain(without_prefix(v), "é") == Ids{0});
}

TEST_CASE("Without an unknown token it is left out, and a warning says so", "[tokenizer]") {
  Vocabulary v;
  add_scored(v, {{"a", 0}, {"b", 0}});
  v.add_space_prefix = false;
  const Tokenizer t = made(v);
  CHECK(plain(t, "axb") == Ids{0, 1});
  REQUIRE(t.warnings().size() == 1);
  CHECK(t.warnings()[0].find("left out") != std::string::npos);
}

TEST_CASE("The unknown token is found by its type if no id names it", "[tokenizer]") {
  Vocabulary v = letters();
  v.unknown.reset();
  CHECK(plain(without_prefix(v), "x") == Ids{0});
}

TEST_CASE("Only normal tokens come out of merges", "[tokenizer]") {
  Vocabulary v = sentence_piece(true);
  add_scored(v, {{"<", 0}, {"s", 0}, {">", 0}, {"<s", 0}});
  add(v, "s>", TokenType::kUnused, 9);
  const Tokenizer t = without_prefix(v);
  CHECK(plain(t, "<s>") == Ids{262, 261});
  CHECK(plain(t, "s>") == Ids{260, 261});
}

TEST_CASE("Merging goes by text: parts need not be tokens themselves", "[tokenizer]") {
  Vocabulary v = sentence_piece(true);
  add_scored(v, {{"▁é", 0}});
  CHECK(plain(made(v), "é") == Ids{259});
}
