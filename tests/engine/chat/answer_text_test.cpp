// Answers as clients see them: whole characters, nothing of a stop, channels of gpt-oss apart.

#include "engine/chat/answer_text.hpp"

#include "tests/engine/chat/chat_fixture.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::fixtures;

namespace {

// The parts that a text of bytes gives, one for each byte that completes something.
std::vector<std::string> parts(AnswerText& answer, const std::string& bytes) {
  std::vector<std::string> out;
  for (const char c : bytes)
    if (AnswerPart part = answer.push(TokenId(static_cast<unsigned char>(c))); !part.text.empty())
      out.push_back(part.text);
  return out;
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("A character is held back until it is whole", "[chat]") {
  AnswerText answer(chat_tokenizer({}), {.continues = true});
  CHECK(parts(answer, "a\u20ACb") == Words{"a", "\u20AC", "b"});
  CHECK(parts(answer, "\xE2\x82").empty());
  CHECK(answer.finish().text == "\xE2\x82");
}

TEST_CASE("An answer ends before a stop, of which nothing was shown", "[chat]") {
  AnswerText answer(chat_tokenizer({}), {.continues = true, .stops = {"END", "\n\n"}});
  CHECK(parts(answer, "a\nEb") == Words{"a", "\n", "Eb"});
  CHECK_FALSE(answer.stopped());
  CHECK(parts(answer, "EENDx") == Words{"E"});
  CHECK(answer.stopped());
  CHECK(answer.finish().empty());
}

TEST_CASE("What might have become a stop is shown at the end", "[chat]") {
  AnswerText answer(chat_tokenizer({}), {.continues = true, .stops = {"aab"}});
  CHECK(parts(answer, "aaaa") == Words{"a", "a"});
  CHECK(answer.finish().text == "aa");
}

TEST_CASE("The first of several stops counts, wherever tokens end", "[chat]") {
  Vocabulary v = byte_pair("gpt-2");
  const TokenId whole = add(v, "xENDyEN");
  const auto made = Tokenizer::make(std::move(v));
  REQUIRE(made.ok());
  AnswerText answer(*made, {.continues = true, .stops = {"EN", "END"}});
  CHECK(answer.push(whole).text == "x");
  CHECK(answer.stopped());
}

TEST_CASE("Channels of gpt-oss are told apart, and headers are not shown", "[chat]") {
  const Tokenizer t = chat_tokenizer({"<|start|>", "<|end|>", "<|message|>", "<|channel|>"});
  AnswerText answer(t, {.harmony = true, .continues = false, .stops = {"!"}});
  std::string text, reasoning;
  const auto write = [&](std::string_view words) {
    for (const TokenId id : t.encode(words, {.parse_special = true})) {
      const AnswerPart part = answer.push(id);
      text += part.text;
      reasoning += part.reasoning;
    }
  };
  write("<|channel|>analysis<|message|>Hm! 2 + 2<|end|>");
  write("<|start|>assistant<|channel|>final<|message|>4");
  CHECK(reasoning == "Hm! 2 + 2");
  CHECK(text == "4");
  CHECK_FALSE(answer.stopped());
  write("!5");
  CHECK(text == "4");
  CHECK(answer.stopped());
}
