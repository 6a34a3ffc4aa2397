#pragma once
// Text to tokens and back, with a model file's own vocabulary.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "engine/tokenizer/vocabulary/vocabulary.hpp"

namespace rigcast::engine {

struct EncodeOptions {
  /// BOS before and EOS after the text, as far as the vocabulary asks for them.
  bool add_special = true;
  /// Control and unknown tokens that the text spells out become those tokens. Not for text of
  /// strangers: without it text gives no control token (unless the unknown token is one).
  bool parse_special = false;
};

struct DecodeOptions {
  /// Control tokens are written out instead of left out.
  bool special = false;
  /// The ids go on after other text: a space that they begin with is a part of it.
  bool continues = false;
};

/// Never changes once made and is cheap to copy: threads may share one.
class Tokenizer {
 public:
  /// Errors: a vocabulary that is contradictory (see check_vocabulary and BytePair::make). Throws
  /// MachineError if PCRE2 fails.
  static Result<Tokenizer> make(Vocabulary vocabulary);

  /// Any bytes are text. User-defined tokens are found wherever they are spelt out, the leftmost
  /// and then the longest; the text between is merged as the vocabulary's kind says. Text is not
  /// normalised. SentencePiece: a space is put before text at the beginning and after a control
  /// token (if the vocabulary asks for it), and U+2581 is a space.
  std::vector<TokenId> encode(std::string_view text, EncodeOptions options = {}) const;

  /// The bytes that the ids stand for, without the spaces that `encode` puts before text. Ids
  /// outside of the vocabulary stand for nothing. decode(encode(text)) is the text if the
  /// vocabulary has a token for every byte.
  std::string decode(std::span<const TokenId> ids, DecodeOptions options = {}) const;

  /// What decode() adds for one more id. `drop_space`: a space that the id begins with is left out,
  /// as encode() put it before the text; set for the next id. At first: adds_space_prefix(), unless
  /// the ids go on after other text.
  std::string_view next_text(TokenId id, bool& drop_space, const DecodeOptions& options) const;

  /// The bytes of one token: whole characters or not. Empty outside of the vocabulary.
  std::string_view piece(TokenId id) const;

  bool is_control(TokenId id) const;
  /// Generation stops here: EOS, EOT, EOM, and what ends an answer in files that name another
  /// token: control and user-defined tokens like "<|im_end|>" or "<|eot_id|>".
  bool ends_generation(TokenId id) const;

  std::size_t size() const;
  VocabularyKind kind() const;
  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;
  std::optional<TokenId> eot() const;
  std::optional<TokenId> unknown() const;
  std::optional<TokenId> pad() const;

  /// What the vocabulary leaves out has been filled in.
  bool adds_bos() const;
  bool adds_space_prefix() const;

  /// What a user should know: results may differ from the model's own tokenizer.
  const std::vector<std::string>& warnings() const;

 private:
  struct Parts;

  explicit Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

  std::shared_ptr<const Parts> parts_;
};

}  // namespace rigcast::engine
