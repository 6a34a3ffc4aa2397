#include "engine/tokenizer/text/pretokenizer.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <limits>
#include <utility>

#include "core/base/error.hpp"
#include "engine/tokenizer/text/utf8.hpp"
#include "engine/tokenizer/text/word_patterns.hpp"

namespace rigcast::engine {
namespace {

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

// The leading run of bytes that are valid UTF-8, or that are not, like the first byte.
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

using Code = std::unique_ptr<pcre2_code, FreeCode>;

Code compiled(const char* pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                          PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr));
  if (!code)
    throw MachineError(
        fmt::format("PCRE2 cannot compile the pre-tokenizer: {}", pcre2_message(error)));
  // Without executable memory PCRE2 interprets the pattern, which is slower but no error.
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  return code;
}

// Appends matches, and the text between them, in order. No pattern matches the empty text.
void cut(std::string_view text, const pcre2_code* code, pcre2_match_context* context,
         pcre2_match_data* data, std::vector<std::string_view>& out) {
  const PCRE2_SIZE* span = pcre2_get_ovector_pointer(data);
  std::size_t done = 0;
  while (done < text.size()) {
    const auto match = [&](std::uint32_t options) {
      return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), done,
                         PCRE2_NO_UTF_CHECK | options, data, context);
    };
    int found = match(0);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match(PCRE2_NO_JIT);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) throw MachineError("PCRE2 cannot split the text: " + pcre2_message(found));
    RIGCAST_ASSERT(span[1] > span[0]);
    if (span[0] > done) out.push_back(text.substr(done, span[0] - done));
    out.push_back(text.substr(span[0], span[1] - span[0]));
    done = span[1];
  }
  if (done < text.size()) out.push_back(text.substr(done));
}

}  // namespace

struct Pretokenizer::Compiled {
  std::vector<Code> steps;
  Context context;
};

Pretokenizer Pretokenizer::named(std::string_view name) {
  const WordPatterns* patterns = word_patterns(name);
  Pretokenizer out;
  out.known_ = patterns != nullptr;
  if (!patterns) patterns = &default_word_patterns();
  out.whole_words_first_ = patterns->whole_words_first;
  out.adds_bos_ = patterns->adds_bos;

  auto all = std::make_shared<Compiled>();
  for (const char* step : patterns->steps) all->steps.push_back(compiled(step));
  all->context.reset(pcre2_match_context_create(nullptr));
  if (!all->context) throw MachineError("PCRE2 is out of memory");
  // The match limit is raised, because a long run of blanks is backtracked over once; that is no
  // runaway.
  pcre2_set_match_limit(all->context.get(), std::numeric_limits<std::uint32_t>::max());
  out.compiled_ = std::move(all);
  return out;
}

void Pretokenizer::split(std::string_view text, std::vector<std::string_view>& words) const {
  const MatchData data(pcre2_match_data_create(1, nullptr));
  if (!data) throw MachineError("PCRE2 is out of memory");
  std::vector<std::string_view> pieces, cut_again;
  while (!text.empty()) {
    const Run run = first_run(text);
    pieces.assign(1, text.substr(0, run.length));
    text.remove_prefix(run.length);
    for (std::size_t i = 0; run.is_text && i < compiled_->steps.size(); ++i) {
      cut_again.clear();
      for (const std::string_view piece : pieces)
        cut(piece, compiled_->steps[i].get(), compiled_->context.get(), data.get(), cut_again);
      std::swap(pieces, cut_again);
    }
    words.insert(words.end(), pieces.begin(), pieces.end());
  }
}

}  // namespace rigcast::engine
