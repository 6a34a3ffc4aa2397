// Text as it comes out of a model, token by token.

#include "engine/tokenizer/stream_decoder.hpp"

#include "tests/engine/tokenizer/tokenizer_fixtures.hpp"

using namespace rigcast;
using namespace rigcast::fixtures;
using engine::DecodeOptions;
using engine::StreamDecoder;

namespace {

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = engine::utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

// Their bytes one after the other, without the one space that is not the text's.
std::string joined(const Tokenizer& t, const Ids& ids) {
  std::string out;
  for (const TokenId id : ids) out += t.piece(id);
  return t.adds_space_prefix() && out.starts_with(' ') ? out.substr(1) : out;
}

}  // namespace

TEST_CASE("A character comes when its last byte does", "[tokenizer]") {
  StreamDecoder d(made(byte_pair("gpt-2")));
  CHECK(d.push('a') == "a");
  CHECK(d.push(0xF0) == "");
  CHECK(d.push(0x9F) == "");
  CHECK(d.push(0x91) == "");
  CHECK(d.push(0x8D) == "👍");
  CHECK(d.push(0xC3) == "");
  CHECK(d.finish() == "\xC3");
  CHECK(d.finish() == "");
}

TEST_CASE("What can no longer become a character is let go", "[tokenizer]") {
  StreamDecoder d(made(byte_pair("gpt-2")));
  CHECK(d.push(0xE4) == "");
  CHECK(d.push('x') == "\xE4x");
  CHECK(d.push(0xE4) == "");
  CHECK(d.push(0xE4) == "\xE4");
  CHECK(d.push(0xFF) == "\xE4\xFF");
  CHECK(d.push(0x80) == "\x80");
}

TEST_CASE("Text that goes on keeps its first space", "[tokenizer]") {
  Vocabulary v = sentence_piece(true);
  const TokenId paris = add(v, "▁Paris");
  const Tokenizer t = made(v);
  CHECK(StreamDecoder(t).push(paris) == "Paris");
  CHECK(StreamDecoder(t, {.continues = true}).push(paris) == " Paris");
  StreamDecoder d(t);
  CHECK(d.push(paris) == "Paris");
  CHECK(d.push(paris) == " Paris");
  CHECK(d.push(2) == "");
  CHECK(d.push(paris) == "Paris");  // a control token begins a new text
  CHECK(d.finish() == "");
  CHECK(d.push(paris) == "Paris");  // and so does the end of the last
}

TEST_CASE("Ids outside of the vocabulary are no text", "[tokenizer]") {
  const Tokenizer t = made(sentence_piece(true));
  CHECK(t.decode(Ids{-1, 3 + 'a', 1'000'000, 3 + 'b'}) == "ab");
  CHECK(t.piece(-1).empty());
  CHECK(t.piece(TokenId(t.size())).empty());
}

TEST_CASE("Streams, cut anywhere, say what decoding at once says", "[tokenizer]") {
  Random random(11);
  for (const bool pairs : {false, true}) {
    Vocabulary v = pairs ? byte_pair("llama-bpe") : sentence_piece(true);
    for (const char* text : {"ab", "▁", "你", "好"}) add(v, pairs ? as_characters(text) : text);
    const Tokenizer t = made(v);
    for (int i = 0; i < 300; ++i) {
      const bool text_only = i % 2 == 0;
      const std::string text = text_only ? random.unicode(30) : random.bytes(30);
      const Ids ids = t.encode(text, {false, false});
      const std::string at_once = t.decode(ids);
      REQUIRE(at_once == joined(t, ids));
      std::string streamed;
      StreamDecoder d(t);
      for (std::size_t n = 0; n < ids.size(); ++n) {
        const std::string out = d.push(ids[n]);
        if (text_only) REQUIRE(is_utf8(out));
        streamed += out;
        // Never more than the beginning of one character is held back.
        const std::string so_far = joined(t, Ids(ids.begin(), ids.begin() + long(n) + 1));
        REQUIRE(so_far.starts_with(streamed));
        REQUIRE(so_far.size() - streamed.size() <= 3);
      }
      REQUIRE(streamed + d.finish() == at_once);
    }
  }
}
