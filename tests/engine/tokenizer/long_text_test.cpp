// A megabyte takes a fraction of a second, whatever is in it: nothing is quadratic.

#include <chrono>

#include "tests/engine/tokenizer/tokenizer_fixtures.hpp"

using namespace rigcast;
using namespace rigcast::fixtures;

namespace {

constexpr std::size_t kBytes = std::size_t{1} << 20;

// A quadratic step would take hours; a slow machine under a sanitizer takes a few seconds.
constexpr double kMaxSeconds = 60;

Tokenizer tokenizer_of(bool pairs) {
  Vocabulary v = pairs ? byte_pair("llama-bpe") : sentence_piece(true);
  std::vector<std::string> known = {"a", "e", "n", "s", "t", "th", "he", "in", " "};
  Random random(5);
  for (std::size_t n = 0; n < 2000; ++n) {
    const std::string left = random.one_of(known), right = random.one_of(known);
    const std::string whole = left + right;
    if (whole.size() > 12 || std::ranges::find(known, whole) != known.end()) continue;
    known.push_back(whole);
  }
  for (const std::string& text : known) {
    if (pairs && text.size() > 1) {
      add(v, as_characters(text));
    } else if (!pairs) {
      std::string marked;
      for (const char c : text) marked += c == ' ' ? "▁" : std::string(1, c);
      add(v, marked, TokenType::kNormal, -float(v.tokens.size()));
    }
  }
  for (std::size_t i = 0; pairs && i < known.size(); ++i)
    for (std::size_t cut = 1; cut < known[i].size(); ++cut) {
      const std::string left = known[i].substr(0, cut), right = known[i].substr(cut);
      const auto is_token = [&](const std::string& s) {
        return s.size() == 1 || std::ranges::find(known, s) != known.end();
      };
      if (is_token(left) && is_token(right))
        v.merges.push_back(as_characters(left) + " " + as_characters(right));
    }
  return made(v);
}

std::string repeated(std::string_view piece) {
  std::string text;
  while (text.size() < kBytes) text += piece;
  return text;
}

std::string prose() {
  Random random(6);
  std::string text;
  while (text.size() < kBytes) {
    for (std::size_t n = 1 + random.below(9); n > 0; --n) text += "aehinst"[random.below(7)];
    text += random.below(12) == 0 ? ".\n" : " ";
  }
  return text;
}

}  // namespace

TEST_CASE("A megabyte of anything is encoded and decoded in seconds", "[tokenizer]") {
  const std::pair<const char*, std::string> texts[] = {{"prose", prose()},
                                                       {"one letter", repeated("a")},
                                                       {"blanks", repeated(" ")},
                                                       {"blanks and a letter", repeated(" ") + "a"},
                                                       {"lines", repeated("\n \n")},
                                                       {"emoji", repeated("👍")},
                                                       {"zeroes", std::string(kBytes, '\0')},
                                                       {"no UTF-8", repeated("\xff")},
                                                       {"UTF-8 and not", repeated("a\xff")}};
  for (const bool pairs : {false, true}) {
    const Tokenizer t = tokenizer_of(pairs);
    for (const auto& [name, text] : texts) {
      const auto begin = std::chrono::steady_clock::now();
      const Ids ids = t.encode(text, {false, true});
      const auto end = std::chrono::steady_clock::now();
      const double seconds = std::chrono::duration<double>(end - begin).count();
      WARN((pairs ? "byte pairs, " : "SentencePiece, ")
           << name << ": " << double(text.size()) / 1e6 / seconds << " MB/s");
      CHECK(seconds < kMaxSeconds);
      CHECK(t.decode(ids) == text);
    }
  }
}
