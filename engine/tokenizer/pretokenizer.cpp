#include "engine/tokenizer/pretokenizer.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "core/error.hpp"
#include "engine/tokenizer/utf8.hpp"

namespace rigcast::engine {
namespace {

// Unicode's White_Space. PCRE2's own \s would count U+180E too, which no tokenizer does.
#define RIGCAST_SPACE "\\p{Z}\\t-\\r\\x{85}"

// The ends of lines and of runs of blanks are the same in all three.
#define RIGCAST_TRAILING_BLANKS "[" RIGCAST_SPACE "]+(?![^" RIGCAST_SPACE "])|[" RIGCAST_SPACE "]+"

constexpr const char* kGpt2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" RIGCAST_SPACE
                              "\\p{L}\\p{N}]+|" RIGCAST_TRAILING_BLANKS;

#define RIGCAST_LATER_WORDS(digits)                                                          \
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^" RIGCAST_SPACE \
  "\\p{L}\\p{N}]+[\\r\\n]*|[" RIGCAST_SPACE "]*[\\r\\n]+|" RIGCAST_TRAILING_BLANKS

constexpr const char* kLlama3 = RIGCAST_LATER_WORDS("\\p{N}{1,3}");
constexpr const char* kQwen2 = RIGCAST_LATER_WORDS("\\p{N}");

#undef RIGCAST_LATER_WORDS
#undef RIGCAST_TRAILING_BLANKS
#undef RIGCAST_SPACE

struct Family {
  std::string_view name;
  const char* pattern;
  bool llama3;  // and its other habits
};

constexpr Family kFamilies[] = {
    {"default", kGpt2, false},    {"gpt-2", kGpt2, false},     {"phi-2", kGpt2, false},
    {"llama-bpe", kLlama3, true}, {"llama-v3", kLlama3, true}, {"llama3", kLlama3, true},
    {"falcon3", kLlama3, true},   {"qwen2", kQwen2, false},    {"deepseek-r1-qwen", kQwen2, false},
    {"stablelm2", kQwen2, false}, {"megrez", kQwen2, false},
};

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
using Context = std::unique_ptr<pcre2_match_context, FreeContext>;
using MatchData = std::unique_ptr<pcre2_match_data, FreeMatch>;

std::string pcre2_message(int error) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

// Bytes at the beginning that are UTF-8, or that are not: whichever the first one is.
struct Run {
  std::size_t length;
  bool is_text;
};

Run first_run(std::string_view text) {
  std::size_t at = 0;
  const auto next = [&] { return utf8_length(text.substr(at, 4)); };
  std::size_t length = next();
  const bool is_text = length > 0;
  while (at < text.size() && (length > 0) == is_text) {
    at += is_text ? length : 1;
    length = next();
  }
  return {at, is_text};
}

}  // namespace

struct Pretokenizer::Compiled {
  std::unique_ptr<pcre2_code, FreeCode> code;
  Context context;
};

Pretokenizer Pretokenizer::named(std::string_view name) {
  const auto* family = std::ranges::find(kFamilies, name, &Family::name);
  Pretokenizer out;
  out.known_ = family != std::end(kFamilies);
  if (!out.known_) family = &kFamilies[0];
  out.whole_words_first_ = out.adds_bos_ = family->llama3;

  auto compiled = std::make_shared<Compiled>();
  int error = 0;
  PCRE2_SIZE offset = 0;
  compiled->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(family->pattern),
                                     PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &error, &offset,
                                     nullptr));
  if (!compiled->code)
    throw MachineError(
        fmt::format("PCRE2 cannot compile the pre-tokenizer: {}", pcre2_message(error)));
  // Without executable memory PCRE2 interprets: slower, and no error.
  pcre2_jit_compile(compiled->code.get(), PCRE2_JIT_COMPLETE);
  compiled->context.reset(pcre2_match_context_create(nullptr));
  if (!compiled->context) throw MachineError("PCRE2 is out of memory");
  // A long run of blanks is backtracked over once, which is no runaway.
  pcre2_set_match_limit(compiled->context.get(), std::numeric_limits<std::uint32_t>::max());
  out.compiled_ = std::move(compiled);
  return out;
}

void Pretokenizer::split(std::string_view text, std::vector<std::string_view>& words) const {
  const MatchData data(pcre2_match_data_create(1, nullptr));
  if (!data) throw MachineError("PCRE2 is out of memory");
  const PCRE2_SIZE* span = pcre2_get_ovector_pointer(data.get());
  while (!text.empty()) {
    const Run run = first_run(text);
    const std::string_view part = text.substr(0, run.length);
    text.remove_prefix(run.length);
    std::size_t done = 0;
    while (run.is_text && done < part.size()) {
      const auto match = [&](std::uint32_t options) {
        return pcre2_match(compiled_->code.get(), reinterpret_cast<PCRE2_SPTR>(part.data()),
                           part.size(), done, PCRE2_NO_UTF_CHECK | options, data.get(),
                           compiled_->context.get());
      };
      int found = match(0);
      if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match(PCRE2_NO_JIT);
      if (found == PCRE2_ERROR_NOMATCH) break;
      if (found < 0) throw MachineError("PCRE2 cannot split the text: " + pcre2_message(found));
      if (span[0] > done) words.push_back(part.substr(done, span[0] - done));
      words.push_back(part.substr(span[0], span[1] - span[0]));
      done = span[1];
    }
    if (done < part.size()) words.push_back(part.substr(done));
  }
}

}  // namespace rigcast::engine
