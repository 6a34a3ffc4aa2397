// Word boundaries for every family of models. The splits are those of Perl with the same
// expressions, one after the other.

#include "engine/tokenizer/text/word_patterns.hpp"

#include "engine/tokenizer/text/pretokenizer.hpp"
#include "tests/engine/tokenizer/tokenizer_fixtures.hpp"

using namespace rigcast;
using namespace rigcast::fixtures;

namespace {

struct Case {
  const char* name;
  const char* text;
  Words words;
};

}  // namespace

TEST_CASE("Families of pre-tokenizers cut text as their models' tokenizers do", "[tokenizer]") {
  const Case cases[] = {
      {"deepseek-coder",
       "I'm in camelCase, HTTPServer's at 12345/7!//\n\n  ok",
       {"I", "'", "m", " in", " camelCase", ",", " HTTPServer", "'",  "s",  " at", " ",  "1",
        "2", "3", "4", "5",   "/",          "7", "!//",         "\n", "\n", " ",   " ok"}},
      {"deepseek-coder",
       "x  = 42;\tif (a != b) {}\r\n",
       {"x", "  = ", "4", "2", ";", "\tif", " (", "a", " !", "=", " b", ")", " {}", "\r", "\n"}},
      {"deepseek-coder",
       "你好，世界 Привет ԱԲ ab",
       {"你好", "，", "世界", " Привет", " ԱԲ", " ab"}},
      {"deepseek-coder",
       "naïve cafe\u0301 3.14%  ",
       {"naïve", " cafe", "\u0301 ", "3", ".", "1", "4", "%", "  "}},
      {"deepseek-coder", " \n \n a   1", {" ", "\n", " ", "\n", " a", "   ", "1"}},
      {"deepseek-llm",
       "I'm in camelCase, HTTPServer's at 12345/7!//\n\n  ok",
       {"I", "'", "m", " in", " camelCase", ",", " HTTPServer", "'",  "s",  " at", " ",  "1",
        "2", "3", "4", "5",   "/",          "7", "!//",         "\n", "\n", " ",   " ok"}},
      {"deepseek-llm",
       "x  = 42;\tif (a != b) {}\r\n",
       {"x", " ", " =", " ", "4", "2", ";", "\tif", " (", "a", " !=", " b", ")", " {}", "\r",
        "\n"}},
      {"deepseek-llm", "你好，世界 Привет ԱԲ ab", {"你好", "，", "世界", " Привет", " ԱԲ", " ab"}},
      {"deepseek-llm",
       "naïve cafe\u0301 3.14%  ",
       {"na", "ï", "ve", " cafe", "\u0301 ", "3", ".", "1", "4", "%", "  "}},
      {"deepseek-llm", " \n \n a   1", {" ", "\n", " ", "\n", " a", "   ", "1"}},
      {"deepseek-v3",
       "I'm in camelCase, HTTPServer's at 12345/7!//\n\n  ok",
       {"I", "'m", " in", " camelCase", ",", " HTTPServer", "'s", " at", " ", "123", "45", "/", "7",
        "!//\n\n", " ", " ok"}},
      {"deepseek-v3",
       "x  = 42;\tif (a != b) {}\r\n",
       {"x", " ", " =", " ", "42", ";", "\tif", " (", "a", " !=", " b", ")", " {}\r\n"}},
      {"deepseek-v3", "你好，世界 Привет ԱԲ ab", {"你好", "，", "世界", " Привет", " ԱԲ", " ab"}},
      {"deepseek-v3",
       "naïve cafe\u0301 3.14%  ",
       {"naïve", " cafe\u0301", " ", "3", ".", "14", "%", "  "}},
      {"deepseek-v3", " \n \n a   1", {" \n \n", " a", "   ", "1"}},
      {"default",
       "I'm in camelCase, HTTPServer's at 12345/7!//\n\n  ok",
       {"I", "'", "m", " in", " camelCase", ",", " HTTPServer", "'", "s", " at", " ", "123", "45",
        "/", "7", "!//", "\n\n ", " ok"}},
      {"default",
       "x  = 42;\tif (a != b) {}\r\n",
       {"x", "  ", "=", " ", "42", ";", "\t", "if", " ", "(", "a", " ", "!=", " b", ")", " ", "{}",
        "\r\n"}},
      {"default", "你好，世界 Привет ԱԲ ab", {"你好", "，", "世界", " Привет", " ԱԲ", " ab"}},
      {"default",
       "naïve cafe\u0301 3.14%  ",
       {"naïve", " cafe", "\u0301", " ", "3", ".", "14", "%", "  "}},
      {"default", " \n \n a   1", {" \n \n", " a", "  ", " ", "1"}},
      {"falcon",
       "I'm in camelCase, HTTPServer's at 12345/7!//\n\n  ok",
       {"I", "'", "m", " in", " camelCase", ",", " HTTPServer", "'", "s", " at", " ", "123", "45",
        "/", "7", "!//", "\n\n ", " ok"}},
      {"falcon",
       "x  = 42;\tif (a != b) {}\r\n",
       {"x", "  ", "=", " 42", ";", "\t", "if", " ", "(", "a", " ", "!=", " b", ")", " ", "{}",
        "\r\n"}},
      {"falcon", "你好，世界 Привет ԱԲ ab", {"你好", "，", "世界", " Привет", " ԱԲ", " ab"}},
      {"falcon",
       "naïve cafe\u0301 3.14%  ",
       {"naïve", " cafe", "\u0301", " 3", ".", "14", "%", "  "}},
      {"falcon", " \n \n a   1", {" \n \n", " a", "  ", " 1"}},
      {"gpt-4o",
       "I'm in camelCase, HTTPServer's at 12345/7!//\n\n  ok",
       {"I'm", " in", " camel", "Case", ",", " HTTPServer's", " at", " ", "123", "45", "/", "7",
        "!//\n\n", " ", " ok"}},
      {"gpt-4o",
       "x  = 42;\tif (a != b) {}\r\n",
       {"x", " ", " =", " ", "42", ";", "\tif", " (", "a", " !=", " b", ")", " {}\r\n"}},
      {"gpt-4o", "你好，世界 Привет ԱԲ ab", {"你好", "，世界", " Привет", " ԱԲ", " ab"}},
      {"gpt-4o",
       "naïve cafe\u0301 3.14%  ",
       {"naïve", " cafe\u0301", " ", "3", ".", "14", "%", "  "}},
      {"gpt-4o", " \n \n a   1", {" \n \n", " a", "  ", " ", "1"}},
      {"minicpm5",
       "I'm in camelCase, HTTPServer's at 12345/7!//\n\n  ok",
       {"I", "'m", " in", " camelCase", ",", " HTTPServer", "'s", " at", " ", "123", "45", "/", "7",
        "!//\n\n", " ", " ok"}},
      {"minicpm5",
       "x  = 42;\tif (a != b) {}\r\n",
       {"x", " ", " =", " ", "42", ";", "\tif", " (", "a", " !=", " b", ")", " {}\r\n"}},
      {"minicpm5", "你好，世界 Привет ԱԲ ab", {"你好", "，世界", " Привет", " ԱԲ", " ab"}},
      {"minicpm5",
       "naïve cafe\u0301 3.14%  ",
       {"naïve", " cafe", "\u0301", " ", "3", ".", "14", "%", "  "}},
      {"minicpm5", " \n \n a   1", {" \n \n", " a", "   ", "1"}},
      {"seed-coder",
       "I'm in camelCase, HTTPServer's at 12345/7!//\n\n  ok",
       {"I", "'m", " in", " camelCase", ",", " HTTPServer", "'s",  " at",  " ", "1",
        "2", "3",  "4",   "5",          "/", "7",           "!//", "\n\n", " ", " ok"}},
      {"seed-coder",
       "x  = 42;\tif (a != b) {}\r\n",
       {"x", " ", " =", " ", "4", "2", ";", "\tif", " (", "a", " !=", " b", ")", " {}", "\r\n"}},
      {"seed-coder", "你好，世界 Привет ԱԲ ab", {"你好", "，世界", " Привет", " ԱԲ", " ab"}},
      {"seed-coder",
       "naïve cafe\u0301 3.14%  ",
       {"naïve", " cafe", "\u0301", " ", "3", ".", "1", "4", "%", "  "}},
      {"seed-coder", " \n \n a   1", {" \n \n", " a", "  ", " ", "1"}},
      {"smollm",
       "I'm in camelCase, HTTPServer's at 12345/7!//\n\n  ok",
       {"I", "'m", " in", " camelCase", ",", " HTTPServer", "'s", " at", " ", "1", "2", "3", "4",
        "5", "/", "7", "!//", "\n\n ", " ok"}},
      {"smollm",
       "x  = 42;\tif (a != b) {}\r\n",
       {"x", " ", " =", " ", "4", "2", ";", "\t", "if", " (", "a", " !=", " b", ")", " {}",
        "\r\n"}},
      {"smollm", "你好，世界 Привет ԱԲ ab", {"你好", "，", "世界", " Привет", " ԱԲ", " ab"}},
      {"smollm",
       "naïve cafe\u0301 3.14%  ",
       {"naïve", " cafe", "\u0301", " ", "3", ".", "1", "4", "%", "  "}},
      {"smollm", " \n \n a   1", {" \n \n", " a", "   ", "1"}},
      {"tekken",
       "I'm in camelCase, HTTPServer's at 12345/7!//\n\n  ok",
       {"I", "'m", " in", " camel", "Case", ",", " HTTPServer", "'s",      " at", " ",
        "1", "2",  "3",   "4",      "5",    "/", "7",           "!//\n\n", " ",   " ok"}},
      {"tekken",
       "x  = 42;\tif (a != b) {}\r\n",
       {"x", " ", " =", " ", "4", "2", ";", "\tif", " (", "a", " !=", " b", ")", " {}\r\n"}},
      {"tekken", "你好，世界 Привет ԱԲ ab", {"你好", "，世界", " Привет", " ԱԲ", " ab"}},
      {"tekken",
       "naïve cafe\u0301 3.14%  ",
       {"naïve", " cafe\u0301", " ", "3", ".", "1", "4", "%", "  "}},
      {"tekken", " \n \n a   1", {" \n \n", " a", "  ", " ", "1"}},
      {"viking",
       "I'm in camelCase, HTTPServer's at 12345/7!//\n\n  ok",
       {"I'm", " in", " camelCase", ",", " HTTPServer's", " at", " ", "1", "2", "3", "4", "5", "/",
        "7", "!", "//", "\n\n ", " ok"}},
      {"viking",
       "x  = 42;\tif (a != b) {}\r\n",
       {"x", " ", " =", " ", "4", "2", ";", "\t", "if", " (", "a", " !", "=", " b", ")", " {}",
        "\r\n"}},
      {"viking", "你好，世界 Привет ԱԲ ab", {"你好", "，", "世界", " Привет", " ԱԲ", " ab"}},
      {"viking",
       "naïve cafe\u0301 3.14%  ",
       {"naïve", " cafe\u0301", " ", "3", ".", "1", "4", "%", "  "}},
      {"viking", " \n \n a   1", {" \n \n", " a", "  ", " ", "1"}},
  };
  for (const Case& c : cases) {
    INFO(c.name << ": " << c.text);
    CHECK(split(c.name, c.text) == c.words);
  }
}

TEST_CASE("Names of one family share its words", "[tokenizer]") {
  const std::vector<std::vector<const char*>> families = {
      {"gpt-2", "phi-2", "mpt", "olmo", "trillion", "exaone4"},
      {"llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral", "midm-2.0", "dbrx", "smaug-bpe"},
      {"qwen2", "deepseek-r1-qwen", "stablelm2", "megrez", "hunyuan", "kormo"},
      {"smollm", "starcoder", "refact", "command-r", "exaone", "minerva-7b"},
      {"deepseek-v3", "hunyuan-dense", "joyai-llm"},
      {"qwen2", "bailingmoe", "bailingmoe2", "llada-moe"},
      {"tiny_aya", "cohere2moe"},
      {"gpt-4o", "llama4"}};
  for (const auto& family : families)
    for (const char* name : family) {
      INFO(name);
      const auto* patterns = engine::word_patterns(name);
      REQUIRE(patterns);
      CHECK(patterns->steps.data() == engine::word_patterns(family[0])->steps.data());
    }
  CHECK_FALSE(engine::word_patterns("klingon"));
}

TEST_CASE("Models of Llama 3 and Mistral begin with BOS and take whole words first",
          "[tokenizer]") {
  for (const char* name : {"llama-bpe", "pixtral", "tekken"}) {
    CHECK(engine::word_patterns(name)->adds_bos);
    CHECK(engine::word_patterns(name)->whole_words_first);
  }
  for (const char* name : {"smaug-bpe", "gpt-4o", "smollm", "deepseek-llm", "qwen2"}) {
    CHECK_FALSE(engine::word_patterns(name)->adds_bos);
    CHECK_FALSE(engine::word_patterns(name)->whole_words_first);
  }
  CHECK(engine::word_patterns("minicpm5")->whole_words_first);
}

TEST_CASE("Families of 2025 and 2026 cut words in ways of their own", "[tokenizer]") {
  // Marks belong to their letters.
  CHECK(split("qwen35", "cafe\u0301s \u0301!") == Words{"cafe\u0301s", " \u0301", "!"});
  CHECK(split("qwen2", "cafe\u0301s") == Words{"cafe", "\u0301s"});
  // Words of several.
  CHECK(split("exaone-moe", "It's two words, 12") ==
        Words{"It", "'s", " two words", ",", " ", "1", "2"});
  // Digits by threes from the right where a word ends, and else from the left.
  CHECK(split("tiny_aya", "1234567 x") == Words{"1", "234", "567", " x"});
  CHECK(split("tiny_aya", "12345x") == Words{"123", "45", "x"});
  CHECK(split("tiny_aya", "a 123456, 12") == Words{"a", " ", "123", "456", ",", " ", "12"});
  // Chinese apart from other letters.
  CHECK(split("kimi-k2", "x中文abc。'll 1234") ==
        Words{"x", "中文", "abc", "。'", "ll", " ", "123", "4"});
  CHECK(split("gpt-4o", "x中文abc") == Words{"x中文abc"});
  CHECK(split("gemma4", "a b\n\nc 1") == Words{"a b", "\n\n", "c 1"});
}

TEST_CASE("A long run of anything is cut in time that grows with it", "[tokenizer]") {
  constexpr std::size_t kLong = 300'000;
  for (const char* name : {"tekken", "gpt-4o", "smollm", "deepseek-llm", "deepseek-coder",
                           "deepseek-v3", "seed-coder", "default", "viking", "qwen35",
                           "bailingmoe2", "exaone-moe", "tiny_aya", "kimi-k2", "gemma4"})
    for (const char* unit : {"a", "A", "1", " ", "\n", "!", "\u4e16", "\u0301", "\u0e01"}) {
      std::string text;
      while (text.size() < kLong) text += unit;
      text += "\u0e01";  // so that no run ends the text
      const auto words = split(name, text);
      std::size_t bytes = 0;
      for (const std::string& word : words) bytes += word.size();
      INFO(name << " " << unit);
      CHECK(bytes == text.size());
    }
}
