#pragma once
// The regular expressions by which models with byte-level BPE cut text into words. The names, and
// which models share one, are those of llama.cpp's `tokenizer.ggml.pre`; the expressions are what
// llama.cpp's source quotes of the models' tokenizer.json, or, where it quotes none (DeepSeek,
// Falcon, Viking), what it cuts by itself.

#include <span>
#include <string_view>

namespace rigcast::engine {

struct WordPatterns {
  /// Patterns for PCRE2. The first splits the text into its matches and the text between them. Each
  /// of the following splits every piece again, as a text of its own.
  std::span<const char* const> steps;
  /// True if a word that is a token becomes that token, whatever the merges say (`ignore_merges`).
  bool whole_words_first = false;
  /// True if BOS begins every text, unless the file states otherwise.
  bool adds_bos = false;
};

/// Finds patterns by name; nullptr: the name is unknown.
const WordPatterns* word_patterns(std::string_view name);

/// GPT-2's patterns, for unknown names.
const WordPatterns& default_word_patterns();

}  // namespace rigcast::engine
