// Tokens that are found in the text as they are written.

#include "engine/tokenizer/vocabulary/special_tokens.hpp"

#include <algorithm>

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
  const engine::SpecialTokens s(
      {{"abc", 1}, {"abcde", 2}, {"cdefgh", 3}, {"b", 4}, {"", 5}, {"abc", 6}});
  const auto in = [&](std::string_view text) {
    Ids all;
    for (const auto& found : s.find_all(text))
      all.insert(all.end(), {TokenId(found.begin), TokenId(found.length), found.id});
    return all;
  };
  CHECK(in("xabcdx") == Ids{1, 3, 1});
  CHECK(in("xabcdex") == Ids{1, 5, 2});
  CHECK(in("abcdefgh") == Ids{0, 5, 2});  // not 3, which is longer and begins later
  CHECK(in("bcdefgh") == Ids{0, 1, 4, 1, 6, 3});
  CHECK(in("cdefgh") == Ids{0, 6, 3});
  CHECK(in("ab") == Ids{1, 1, 4});
  CHECK(in("abcabcdeb") == Ids{0, 3, 1, 3, 5, 2, 8, 1, 4});
  CHECK(in("xyz").empty());
  CHECK(in("").empty());
  CHECK(engine::SpecialTokens().find_all("a").empty());
}

TEST_CASE("Special tokens are found where trying each at every place finds them", "[tokenizer]") {
  Random random(11);
  const auto word = [&](std::size_t most) {
    std::string out(random.below(most + 1), '\0');
    for (char& c : out) c = "ab"[random.below(2)];
    return out;
  };
  for (int round = 0; round < 500; ++round) {
    std::vector<std::string> texts(1 + random.below(6));
    std::vector<std::pair<std::string_view, TokenId>> tokens;
    for (std::string& text : texts) text = word(6);
    for (const std::string& text : texts) tokens.emplace_back(text, TokenId(tokens.size()));
    const std::string text = word(40);
    Ids expected;
    for (std::size_t at = 0; at < text.size();) {
      std::size_t longest = 0;
      TokenId id = -1;
      for (const auto& [token, i] : tokens)
        if (token.size() > longest && text.compare(at, token.size(), token) == 0)
          longest = token.size(), id = i;
      if (id >= 0) expected.insert(expected.end(), {TokenId(at), TokenId(longest), id});
      at += std::max<std::size_t>(longest, 1);
    }
    Ids found;
    for (const auto& f : engine::SpecialTokens(tokens).find_all(text))
      found.insert(found.end(), {TokenId(f.begin), TokenId(f.length), f.id});
    CHECK(found == expected);
  }
}

TEST_CASE("Text that nearly spells a long special token takes no longer than other text",
          "[tokenizer]") {
  Vocabulary v = byte_pair("qwen2");
  add(v, "a", TokenType::kUserDefined);
  v.tokens['a'] = "unused";
  add(v, std::string(4000, 'a') + "b", TokenType::kControl);
  const Tokenizer t = made(v);
  // 8e9 steps if every place were tried for itself.
  const Ids ids = t.encode(std::string(2'000'000, 'a'), {false, true});
  CHECK(ids.size() == 2'000'000);
  CHECK(std::ranges::all_of(ids, [](TokenId id) { return id == 256; }));
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

TEST_CASE("Generation ends at the ends of answers that files do not name", "[tokenizer]") {
  Vocabulary v = chat();
  v.eos = 256;
  v.eom = 258;
  const TokenId im_end = add(v, "<|im_end|>", TokenType::kControl);
  const TokenId eot = add(v, "<|eot_id|>", TokenType::kUserDefined);
  const TokenId text = add(v, "</s>", TokenType::kNormal);
  const TokenId end = add(v, "<|end|>", TokenType::kControl);
  const TokenId begin = add(v, "<|im_start|>", TokenType::kControl);
  const Tokenizer t = made(v);
  for (const TokenId id : {256, 258, im_end, eot, end}) CHECK(t.ends_generation(id));
  for (const TokenId id : {0, 257, text, begin, -1}) CHECK_FALSE(t.ends_generation(id));
  // Harmony's <|end|> ends a message, behind which the answer comes.
  const TokenId done = add(v, "<|return|>", TokenType::kControl);
  const TokenId call = add(v, "<|call|>", TokenType::kControl);
  const Tokenizer harmony = made(v);
  CHECK(harmony.ends_generation(done));
  CHECK(harmony.ends_generation(call));
  CHECK_FALSE(harmony.ends_generation(end));
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
