#pragma once
// Byte-level BPE merges inside words alone; a regular expression says what a word is. Models differ
// in it, and file it under a name.

#include <memory>
#include <string_view>
#include <vector>

namespace rigcast::engine {

class Pretokenizer {
 public:
  /// By the names of word_patterns. Any other name gets GPT-2's words, and `is_known` is false.
  /// Throws MachineError if PCRE2 was built without Unicode.
  static Pretokenizer named(std::string_view name);

  bool is_known() const { return known_; }

  /// A word that is a token is that token, whatever the merges say.
  bool whole_words_first() const { return whole_words_first_; }

  /// Models with these words begin every text with BOS unless their file says otherwise.
  bool adds_bos() const { return adds_bos_; }

  /// Cuts the text into words; put together again they are the text. A run of bytes that are no
  /// UTF-8 is a word, and the text left and right of it ends there. Throws MachineError if PCRE2
  /// runs out of memory.
  void split(std::string_view text, std::vector<std::string_view>& words) const;

 private:
  struct Compiled;

  std::shared_ptr<const Compiled> compiled_;  // not changed by matching: threads share it
  bool known_ = true;
  bool whole_words_first_ = false;
  bool adds_bos_ = false;
};

}  // namespace rigcast::engine
