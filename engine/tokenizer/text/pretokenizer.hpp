#pragma once
// The pre-tokenizer splits text into words, within which byte-level BPE merges. A regular
// expression defines words; models have different ones, identified by name.

#include <memory>
#include <string_view>
#include <vector>

namespace rigcast::engine {

class Pretokenizer {
 public:
  /// Makes the pre-tokenizer of that name (see word_patterns). An unknown name gets GPT-2's words,
  /// and `is_known` is false. Throws MachineError if PCRE2 was built without Unicode.
  static Pretokenizer named(std::string_view name);

  bool is_known() const { return known_; }

  /// True if a word that is a token becomes that token, whatever the merges say.
  bool whole_words_first() const { return whole_words_first_; }

  /// Models with these words begin every text with BOS unless their file says otherwise.
  bool adds_bos() const { return adds_bos_; }

  /// Splits the text into words, whose concatenation is the text. A run of invalid bytes is a word
  /// of its own. Throws MachineError if PCRE2 runs out of memory.
  void split(std::string_view text, std::vector<std::string_view>& words) const;

 private:
  struct Compiled;

  std::shared_ptr<const Compiled> compiled_;  // immutable: threads share it
  bool known_ = true;
  bool whole_words_first_ = false;
  bool adds_bos_ = false;
};

}  // namespace rigcast::engine
