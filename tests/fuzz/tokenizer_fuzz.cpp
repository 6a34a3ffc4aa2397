// libFuzzer: the first bytes describe a vocabulary, the rest is text. Whatever the vocabulary says,
// making a tokenizer of it is an error or gives one that encodes any text to ids of the vocabulary;
// with a token for every byte of the text, decoding gives the text back.

#include <array>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/tokenizer/piece_table.hpp"
#include "engine/tokenizer/text/byte_alphabet.hpp"
#include "engine/tokenizer/text/utf8.hpp"
#include "engine/tokenizer/tokenizer.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using namespace rigcast::engine;
using rigcast::fuzz::Input;

std::string characters(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) append_utf8(text, byte_character(static_cast<unsigned char>(c)));
  return text;
}

void add(Vocabulary& v, std::string text, TokenType type, float score) {
  v.tokens.push_back(std::move(text));
  v.types.push_back(type);
  v.scores.push_back(score);
}

// Those of `text`, and of the mark for a space: a vocabulary of all 256 takes most of the time.
void add_bytes(Vocabulary& v, std::string_view text, bool all) {
  constexpr const char* kDigits = "0123456789ABCDEF";
  std::array<bool, 256> wanted{};
  wanted.fill(all);
  for (const char c : text) wanted[static_cast<unsigned char>(c)] = true;
  for (const unsigned c : {0x20u, 0xE2u, 0x96u, 0x81u}) wanted[c] = true;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char c = char(byte);
    if (!wanted[byte]) continue;
    if (v.kind == VocabularyKind::kBytePair) {
      add(v, characters({&c, 1}), TokenType::kNormal, 0);
    } else {
      add(v, std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">", TokenType::kByte,
          0);
    }
  }
}

void add_token(Vocabulary& v, Input& in) {
  const unsigned how = in.byte();
  const std::string_view text = in.take(how >> 4);
  const unsigned type = in.byte();
  const unsigned score = in.byte();
  // Mostly types that there are: else few inputs get past the checks.
  const bool any_type = type >= 0xF8;
  const auto t = static_cast<TokenType>(any_type ? int(type & 7) : 1 + int(type % 6));
  const float s = score == 0xFF ? std::numeric_limits<float>::quiet_NaN() : -float(score % 16);
  const bool spelt = v.kind == VocabularyKind::kBytePair && t == TokenType::kNormal && !(how & 1);
  add(v, spelt ? characters(text) : std::string(text), t, s);
}

void add_merge(Vocabulary& v, Input& in) {
  const unsigned left = in.byte(), right = in.byte(), how = in.byte();
  const std::size_t n = v.tokens.size();
  if (n == 0) return;
  // From the end: the last tokens are those that the input added.
  const std::string l = v.tokens[n - 1 - left % n], r = v.tokens[n - 1 - right % n];
  const std::string whole = l + r;
  if (whole.size() > 5000) return;  // merges of merges double: just past what is accepted
  v.merges.push_back(how >= 0xF0 ? l + r : l + " " + r);
  for (const std::string& token : v.tokens)
    if (token == whole) return;
  if (how % 8 != 7) add(v, whole, TokenType::kNormal, 0);
}

std::optional<TokenId> id(Input& in) {
  const unsigned b = in.byte();
  if (b < 0x80) return std::nullopt;
  return b >= 0xF8 ? TokenId(b) - 0xFC : TokenId(b - 0x80);
}

struct Case {
  Vocabulary vocabulary;
  bool every_byte = false;
  bool parse = false;
};

Case read_case(Input& in) {
  Case c;
  Vocabulary& v = c.vocabulary;
  const unsigned flags = in.byte(), more = in.byte();
  if (flags & 1) v.kind = VocabularyKind::kBytePair;
  c.every_byte = flags & 2;
  c.parse = flags & 4;
  constexpr const char* kNames[] = {"gpt-2", "llama-bpe", "qwen2", "none of these"};
  v.pre_tokenizer = kNames[flags >> 3 & 3];
  if (more & 1) v.add_space_prefix = more & 2;
  if (more & 4) v.add_bos = more & 8;
  if (more & 16) v.add_eos = more & 32;
  if (more & 64)
    for (auto* which : {&v.bos, &v.eos, &v.eot, &v.unknown, &v.pad}) *which = id(in);
  if (c.every_byte) add_bytes(v, in.rest(), flags >> 5 == 7);
  for (unsigned n = in.byte() % 32; n > 0; --n) add_token(v, in);
  for (unsigned n = in.byte() % 32; n > 0; --n) add_merge(v, in);
  if (more & 128) v.scores.clear();
  return c;
}

void check(const Case& c, const Tokenizer& t, std::string_view text) {
  const auto ids = t.encode(text, {false, c.parse});
  for (const TokenId token : ids) {
    RIGCAST_ASSERT(token >= 0 && std::size_t(token) < t.size());
    RIGCAST_ASSERT(c.parse || !t.is_control(token) || token == t.unknown());
  }
  const std::string back = t.decode(ids, {true, false});
  const auto with_special = t.encode(text);
  RIGCAST_ASSERT(with_special.size() <= ids.size() + text.size() + 3);
  if (!c.every_byte) return;
  // To SentencePiece a mark is a space, and no way back knows which it was.
  const bool marks = t.kind() == VocabularyKind::kSentencePiece;
  RIGCAST_ASSERT(marks ? without_marks(back) == without_marks(text) : back == text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input in(data, size);
  Case c = read_case(in);
  const auto tokenizer = Tokenizer::make(c.vocabulary);
  if (tokenizer) {
    check(c, *tokenizer, in.rest());
  } else {
    RIGCAST_ASSERT(!tokenizer.error().message.empty());
  }
  return 0;
}
