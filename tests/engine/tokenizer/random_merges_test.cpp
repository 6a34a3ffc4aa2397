// Thousands of random vocabularies and texts: merges agree with an implementation that looks at all
// pairs again after each merge, and decoding gives the text back.

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "engine/tokenizer/piece_table.hpp"
#include "engine/tokenizer/sentence_piece.hpp"
#include "engine/tokenizer/text/pretokenizer.hpp"
#include "tests/engine/tokenizer/tokenizer_fixtures.hpp"

using namespace rigcast;
using namespace rigcast::fixtures;

namespace {

using Parts = std::vector<std::string>;

// Joins the best pair, the leftmost of equals, until `cost` (pair -> less is sooner) has none.
template <class Cost>
Parts merge_naively(Parts parts, Cost cost) {
  for (;;) {
    std::optional<double> best;
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const std::optional<double> c = cost(parts[i], parts[i + 1]);
      if (c && (!best || *c < *best)) best = c, at = i;
    }
    if (!best) return parts;
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + long(at) + 1);
  }
}

const Parts kLetters = {"a", "b", "c", "é", "你", "👍"};

std::string random_text(Random& random, std::size_t most) {
  std::string text;
  for (std::size_t n = random.below(most + 1); n > 0; --n) text += random.one_of(kLetters);
  return text;
}

// Tokens of two parts each, parts being letters or tokens before; few scores, so that many tie.
std::map<std::string, float> random_scores(Random& random) {
  std::map<std::string, float> scores;
  Parts known = kLetters;
  for (std::size_t n = 5 + random.below(40); n > 0; --n) {
    known.push_back(random.one_of(known) + random.one_of(known));
    scores[known.back()] = -float(random.below(8));
  }
  return scores;
}

struct RandomMerges {
  Vocabulary vocabulary;
  std::map<std::pair<std::string, std::string>, int> ranks;  // of byte strings
};

RandomMerges random_merges(Random& random, const char* pre_tokenizer) {
  Parts known;
  for (const std::string& letter : kLetters)
    for (const char c : letter) known.emplace_back(1, c);
  std::set<std::pair<std::string, std::string>> pairs;
  RandomMerges out{byte_pair(pre_tokenizer), {}};
  std::set<std::string> made_before;
  for (std::size_t n = 5 + random.below(60); n > 0; --n) {
    const auto pair = std::pair(random.one_of(known), random.one_of(known));
    if (pair.first.size() + pair.second.size() > 100 || !pairs.insert(pair).second) continue;
    const std::string whole = pair.first + pair.second;
    if (made_before.insert(whole).second) add(out.vocabulary, as_characters(whole));
    known.push_back(whole);
  }
  std::vector<std::pair<std::string, std::string>> order(pairs.begin(), pairs.end());
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  for (const auto& pair : order) {
    out.ranks.emplace(pair, int(out.ranks.size()));
    out.vocabulary.merges.push_back(as_characters(pair.first) + " " + as_characters(pair.second));
  }
  return out;
}

Parts characters(std::string_view text) {
  Parts out;
  while (!text.empty()) {
    const std::size_t length = std::max<std::size_t>(1, engine::utf8_length(text));
    out.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace

TEST_CASE("SentencePiece merges as looking at all pairs each time does", "[tokenizer]") {
  Random random(2);
  std::size_t merged = 0;
  for (int round = 0; round < 200; ++round) {
    const auto scores = random_scores(random);
    Vocabulary v = sentence_piece(true);
    for (const std::string& letter : kLetters) add(v, letter, TokenType::kNormal, -100);
    for (const auto& [text, score] : scores) add(v, text, TokenType::kNormal, score);
    v.add_space_prefix = false;
    const Tokenizer t = made(v);
    for (int i = 0; i < 20; ++i) {
      const std::string text = random_text(random, 60);
      const Parts parts = merge_naively(
          characters(text),
          [&](const std::string& left, const std::string& right) -> std::optional<double> {
            const auto found = scores.find(left + right);
            if (found == scores.end()) return std::nullopt;
            return -double(found->second);
          });
      merged += characters(text).size() - parts.size();
      REQUIRE(pieces(t, t.encode(text, {false, false})) == parts);
    }
  }
  CHECK(merged > 4'000);  // at least one a text
}

TEST_CASE("Byte pairs merge as looking at all pairs each time does", "[tokenizer]") {
  Random random(3);
  std::size_t merged = 0;
  for (const char* name : {"gpt-2", "qwen2"}) {
    for (int round = 0; round < 100; ++round) {
      const RandomMerges merges = random_merges(random, name);
      const Tokenizer t = made(merges.vocabulary);
      for (int i = 0; i < 20; ++i) {
        const std::string text = random_text(random, 40);
        std::vector<std::string_view> words;
        engine::Pretokenizer::named(name).split(text, words);
        Parts expected;
        for (const std::string_view word : words) {
          Parts bytes;
          for (const char c : word) bytes.emplace_back(1, c);
          const Parts parts =
              merge_naively(bytes, [&](const std::string& left, const std::string& right) {
                const auto found = merges.ranks.find({left, right});
                return found == merges.ranks.end() ? std::nullopt
                                                   : std::optional<double>(found->second);
              });
          expected.insert(expected.end(), parts.begin(), parts.end());
        }
        merged += text.size() - expected.size();
        REQUIRE(pieces(t, t.encode(text, {false, false})) == expected);
      }
    }
  }
  CHECK(merged > 4'000);  // at least one a text
}

TEST_CASE("Decoding gives back any bytes and any text", "[tokenizer]") {
  Random random(4);
  for (int round = 0; round < 60; ++round) {
    Vocabulary v;
    if (round % 2) {
      v = random_merges(random, round % 4 == 1 ? "llama-bpe" : "gpt-2").vocabulary;
    } else {
      v = sentence_piece(true);
      for (const auto& [text, score] : random_scores(random))
        add(v, text, TokenType::kNormal, score);
      if (round % 4) v.add_space_prefix = false;
    }
    add(v, "<x>", TokenType::kControl);
    add(v, "<x><", TokenType::kUserDefined);
    add(v, ">\n", TokenType::kUserDefined);
    const Tokenizer t = made(v);
    for (int i = 0; i < 60; ++i) {
      std::string text = i % 3 == 0   ? random.bytes(60)
                         : i % 3 == 1 ? random.unicode(60)
                                      : random_text(random, 60);
      if (i % 4 == 0) text.insert(random.below(text.size() + 1), "<x><x>\n");
      const bool parse = i % 2 == 0;
      const Ids ids = t.encode(text, {false, parse});
      // To SentencePiece the mark is a space, and no way back knows which it was.
      const bool marks = t.kind() == VocabularyKind::kSentencePiece;
      const std::string expected = marks ? engine::without_marks(text) : text;
      REQUIRE(t.decode(ids, {.special = true}) == expected);
      for (const TokenId id : ids) REQUIRE((parse || !t.is_control(id)));
    }
  }
}
