#include "engine/tokenizer/text/utf8.hpp"

#include "tests/catch.hpp"

using namespace rigcast::engine;

TEST_CASE("Every code point is written, read back, and cut short nowhere", "[tokenizer]") {
  std::size_t wrong = 0;
  for (char32_t code = 0; code < 0x110000; ++code) {
    if (code == 0xD800) code = 0xE000;
    std::string text;
    append_utf8(text, code);
    wrong += utf8_length(text) != text.size() || utf8_decode(text) != code;
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      const std::string_view begun = std::string_view(text).substr(0, cut);
      wrong += utf8_length(begun) != 0 || incomplete_utf8_tail(begun) != cut;
    }
    wrong += incomplete_utf8_tail(text) != 0;
  }
  CHECK(wrong == 0);
}

TEST_CASE("Of all strings of two bytes those of U+0080 to U+07FF are one character",
          "[tokenizer]") {
  int whole = 0;
  for (int a = 0; a < 256; ++a)
    for (int b = 0; b < 256; ++b) whole += utf8_length(std::string{char(a), char(b)}) == 2;
  CHECK(whole == 0x800 - 0x80);
}

TEST_CASE("Of all strings of three bytes those of U+0800 to U+FFFF are one character",
          "[tokenizer]") {
  int whole = 0;
  for (int a = 0xC0; a < 256; ++a)
    for (int b = 0; b < 256; ++b)
      for (int c = 0; c < 256; ++c)
        whole += utf8_length(std::string{char(a), char(b), char(c)}) == 3;
  CHECK(whole == 0x10000 - 0x800 - 0x800);  // without the surrogates
}

TEST_CASE("What is not UTF-8 has no length", "[tokenizer]") {
  CHECK(utf8_length("") == 0);
  for (const char* text :
       {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc3x", "\xe4\xbdx", "\xf0\x9f\x91x"})
    CHECK(utf8_length(text) == 0);
  CHECK(utf8_length("\xf4\x8f\xbf\xbf") == 4);
  CHECK(utf8_length("\xed\x9f\xbf") == 3);
}

TEST_CASE("Only what can still become a character counts as incomplete", "[tokenizer]") {
  CHECK(incomplete_utf8_tail("") == 0);
  CHECK(incomplete_utf8_tail("abc") == 0);
  CHECK(incomplete_utf8_tail("a\xc3") == 1);
  CHECK(incomplete_utf8_tail("a\xe4\xbd") == 2);
  CHECK(incomplete_utf8_tail("a\xf0\x9f\x91") == 3);
  CHECK(incomplete_utf8_tail("a\xe0\x80") == 0);  // overlong: nothing completes it
  CHECK(incomplete_utf8_tail("a\xed\xa0") == 0);  // a surrogate
  CHECK(incomplete_utf8_tail("a\xff") == 0);
  CHECK(incomplete_utf8_tail("a\x80\x80") == 0);
  CHECK(incomplete_utf8_tail("\xc3\xc3") == 1);
  CHECK(incomplete_utf8_tail("\xe4\xbd\xa0") == 0);
}
