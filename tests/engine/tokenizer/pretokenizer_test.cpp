// Where the three regular expressions cut.

#include "engine/tokenizer/text/pretokenizer.hpp"

#include <numeric>

#include "tests/engine/tokenizer/tokenizer_fixtures.hpp"

using namespace rigcast;
using namespace rigcast::fixtures;

namespace {

Words gpt2(std::string_view text) { return split("gpt-2", text); }
Words llama3(std::string_view text) { return split("llama-bpe", text); }
Words qwen2(std::string_view text) { return split("qwen2", text); }

}  // namespace

TEST_CASE("Contractions are words, in capitals too where the model says so", "[tokenizer]") {
  CHECK(gpt2("it's we'll I'M") == Words{"it", "'s", " we", "'ll", " I", "'", "M"});
  CHECK(llama3("it's we'll I'M") == Words{"it", "'s", " we", "'ll", " I", "'M"});
  CHECK(qwen2("THEY'VE") == Words{"THEY", "'VE"});
  CHECK(gpt2("y'all") == Words{"y", "'", "all"});
  CHECK(llama3("y'all") == Words{"y", "'all"});
  CHECK(llama3("Don'those") == Words{"Don", "'t", "hose"});
  CHECK(llama3("it'ſ") == Words{"it", "'ſ"});  // a long s is an s in another case
  CHECK(gpt2("it'ſ") == Words{"it", "'", "ſ"});
}

TEST_CASE("Digits stand together, by threes, or alone", "[tokenizer]") {
  CHECK(gpt2("a 12345") == Words{"a", " 12345"});
  CHECK(llama3("a 12345") == Words{"a", " ", "123", "45"});
  CHECK(qwen2("a 123") == Words{"a", " ", "1", "2", "3"});
  CHECK(llama3("½²34") == Words{"½²3", "4"});
  CHECK(qwen2("٣٤") == Words{"٣", "٤"});
  CHECK(llama3("x1y") == Words{"x", "1", "y"});
}

TEST_CASE("A run of blanks leaves its last one to the word after it", "[tokenizer]") {
  CHECK(gpt2("a   b") == Words{"a", "  ", " b"});
  CHECK(gpt2("a   ") == Words{"a", "   "});
  CHECK(gpt2("  \n x") == Words{"  \n", " x"});
  CHECK(llama3("a   b") == Words{"a", "  ", " b"});
  CHECK(llama3("a  1") == Words{"a", " ", " ", "1"});
  CHECK(llama3("\tx") == Words{"\tx"});
  CHECK(gpt2("\tx") == Words{"\t", "x"});
}

TEST_CASE("Ends of lines are words of their own", "[tokenizer]") {
  CHECK(llama3("a\n\n  b") == Words{"a", "\n\n", " ", " b"});
  CHECK(llama3("a \r\n b") == Words{"a", " \r\n", " b"});
  CHECK(llama3("x!!\n\ny") == Words{"x", "!!\n\n", "y"});
  CHECK(gpt2("x!!\n\ny") == Words{"x", "!!", "\n", "\n", "y"});
  CHECK(qwen2("\n") == Words{"\n"});
  CHECK(llama3(" \n \n ") == Words{" \n \n", " "});
}

TEST_CASE("Signs take the blank before them, and words the sign before them", "[tokenizer]") {
  CHECK(gpt2("f(x) => {}") == Words{"f", "(", "x", ")", " =>", " {}"});
  CHECK(llama3("f(x) => {}") == Words{"f", "(x", ")", " =>", " {}"});
  CHECK(llama3("#include") == Words{"#include"});
  CHECK(llama3("##include") == Words{"##", "include"});
}

TEST_CASE("Letters are those of every alphabet", "[tokenizer]") {
  CHECK(gpt2("你好，世界") == Words{"你好", "，", "世界"});
  CHECK(llama3("你好，世界") == Words{"你好", "，世界"});
  CHECK(gpt2("Привет мир") == Words{"Привет", " мир"});
  CHECK(gpt2("שלום عالم") == Words{"שלום", " عالم"});
  // An accent of its own is no letter.
  CHECK(llama3("cafe\u0301s") == Words{"cafe", "\u0301s"});
  CHECK(gpt2("cafe\u0301s") == Words{"cafe", "\u0301", "s"});
  CHECK(llama3("日本語１２３４") == Words{"日本語", "１２３", "４"});
}

TEST_CASE("Emoji are signs, with all their parts", "[tokenizer]") {
  CHECK(llama3("hi 👍🏽!") == Words{"hi", " 👍🏽!"});
  CHECK(gpt2("👩‍👩‍👧 x") == Words{"👩‍👩‍👧", " x"});
}

TEST_CASE("Blanks are Unicode's white space, no more and no less", "[tokenizer]") {
  CHECK(gpt2("!\u3000!") == Words{"!", "\u3000", "!"});
  CHECK(gpt2("!\u00a0!") == Words{"!", "\u00a0", "!"});
  CHECK(gpt2("!\u0085!") == Words{"!", "\u0085", "!"});
  CHECK(gpt2("!\u2028!") == Words{"!", "\u2028", "!"});
  CHECK(gpt2("!\u180e!") == Words{"!\u180e!"});
  CHECK(gpt2("!\u200b!") == Words{"!\u200b!"});
  CHECK(gpt2("!\x1c!") == Words{"!\x1c!"});
}

TEST_CASE("Bytes that are no UTF-8 are words of their own", "[tokenizer]") {
  CHECK(gpt2("ab\xff\xfe cd") == Words{"ab", "\xff\xfe", " cd"});
  CHECK(llama3("a \xc3") == Words{"a", " ", "\xc3"});
  CHECK(llama3("\xed\xa0\x80") == Words{"\xed\xa0\x80"});                // a surrogate
  CHECK(llama3("\xf4\x90\x80\x80x") == Words{"\xf4\x90\x80\x80", "x"});  // past U+10FFFF
  CHECK(llama3("\xc0\x80") == Words{"\xc0\x80"});                        // overlong
}

TEST_CASE("NUL is a sign like others", "[tokenizer]") {
  CHECK(gpt2(std::string_view("a\0b", 3)) == Words{"a", std::string(1, '\0'), "b"});
}

TEST_CASE("Words put together are the text, whatever it is", "[tokenizer]") {
  Random random(7);
  for (const char* name : {"gpt-2", "llama-bpe", "qwen2"}) {
    for (int i = 0; i < 1000; ++i) {
      const std::string text = i % 2 ? random.bytes(40) : random.unicode(40);
      const Words words = split(name, text);
      CHECK(std::accumulate(words.begin(), words.end(), std::string()) == text);
      CHECK(std::ranges::none_of(words, &std::string::empty));
    }
  }
}

TEST_CASE("An unknown name gets GPT-2's words and is said to be unknown", "[tokenizer]") {
  CHECK(split("klingon", "a 12345") == gpt2("a 12345"));
  CHECK_FALSE(engine::Pretokenizer::named("klingon").is_known());
  CHECK_FALSE(engine::Pretokenizer::named("").is_known());
  CHECK(engine::Pretokenizer::named("default").is_known());

  const Tokenizer t = made(byte_pair("klingon\n"));
  REQUIRE(t.warnings().size() == 1);
  CHECK(t.warnings()[0].find("unknown pre-tokenizer \"klingon\\x0a\"") == 0);
  CHECK(made(byte_pair("")).warnings().size() == 1);
  CHECK(made(byte_pair("qwen2")).warnings().empty());
}
