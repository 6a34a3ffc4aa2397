#include "engine/synth/synthetic_vocabulary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.hpp"

namespace rigcast::engine {
namespace {

constexpr std::string_view kBeginningOfWord = "\xE2\x96\x81";  // U+2581, in place of a blank

// tokenizer.ggml.token_type
enum Kind : std::int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kByte = 6 };

// The words of one letter, then of two, ...: a to z, aa to zz, aaa, ...
std::string word(std::int64_t index) {
  std::string letters;
  for (; index >= 0; index = index / 26 - 1) letters += char('a' + index % 26);
  std::ranges::reverse(letters);
  return letters;
}

// Normal tokens: a beginning of a word, printable characters, then words by turns inside a word,
// where those of one letter are characters already, and at its beginning.
std::string normal_token(std::int64_t index) {
  constexpr std::int64_t kPrintable = '~' - '!' + 1;
  if (index == 0) return std::string(kBeginningOfWord);
  if (index <= kPrintable) return std::string(1, char('!' + index - 1));
  index -= kPrintable + 1;
  if (index % 2 == 0) return std::string(kBeginningOfWord) + word(index / 2);
  return word(26 + index / 2);
}

// llama.cpp wants the last of them in models that are called Phi 3.
constexpr std::array<std::string_view, 4> kSpecial = {"<unk>", "<s>", "</s>", "<|endoftext|>"};

std::pair<std::string, Kind> token(std::int64_t id) {
  constexpr auto kFirstByte = std::int64_t(kSpecial.size());
  if (id < kFirstByte)
    return {std::string(kSpecial[std::size_t(id)]), id == 0 ? kUnknown : kControl};
  if (id < kFewestTokens) return {fmt::format("<0x{:02X}>", id - kFirstByte), kByte};
  return {normal_token(id - kFewestTokens), kNormal};
}

}  // namespace

void set_synthetic_vocabulary(GgufHeader& header, std::int64_t size) {
  RIGCAST_ASSERT(size >= kFewestTokens);
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<std::int32_t> kinds;
  for (std::int64_t id = 0; id < size; ++id) {
    auto [text, kind] = token(id);
    tokens.push_back(std::move(text));
    scores.push_back(kind == kNormal ? -float(id) : 0.0f);
    kinds.push_back(kind);
  }
  header.set("tokenizer.ggml.model", "llama");
  header.set("tokenizer.ggml.pre", "default");
  header.set("tokenizer.ggml.tokens", tokens);
  header.set("tokenizer.ggml.scores", scores);
  header.set("tokenizer.ggml.token_type", kinds);
  header.set("tokenizer.ggml.unknown_token_id", std::uint32_t(0));
  header.set("tokenizer.ggml.bos_token_id", std::uint32_t(1));
  header.set("tokenizer.ggml.eos_token_id", std::uint32_t(2));
}

}  // namespace rigcast::engine
