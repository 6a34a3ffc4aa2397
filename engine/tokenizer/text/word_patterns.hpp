#pragma once
// The regular expressions by which models with byte-level BPE cut text into words. The names, and
// which models share one, are those of llama.cpp's `tokenizer.ggml.pre`; the expressions are what
// llama.cpp's source quotes of the models' tokenizer.json, or, where it quotes none (DeepSeek,
// Falcon, Viking), what it cuts by itself.

#include <span>
#include <string_view>

namespace rigcast::engine {

struct WordPatterns {
  /// For PCRE2. The first cuts the text: what it matches and what is left between are pieces. Each
  /// of the following cuts every piece again, as if it were a text of its own.
  std::span<const char* const> steps;
  /// A word that is a token is that token, whatever the merges say (`ignore_merges`).
  bool whole_words_first = false;
  /// BOS begins every text unless the file says otherwise.
  bool adds_bos = false;
};

/// nullptr: a name that is not known.
const WordPatterns* word_patterns(std::string_view name);

/// GPT-2's, where nothing better is known.
const WordPatterns& usual_word_patterns();

}  // namespace rigcast::engine
