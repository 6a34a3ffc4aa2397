#pragma once
// Conversion of text to tokens and back, with a model file's own vocabulary.

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
  /// Adds BOS before and EOS after the text, if the vocabulary states so.
  bool add_special = true;
  /// Control and unknown tokens that are spelled out in the text become those tokens. Not for
  /// untrusted text: without this option text yields no control token (unless the unknown token is
  /// one).
  bool parse_special = false;
  /// The text goes on from other text: no space is put before it.
  bool continues = false;
};

struct DecodeOptions {
  /// Control tokens are written out instead of left out.
  bool special = false;
  /// The ids continue other text: a space at their beginning is a part of it.
  bool continues = false;
};

/// A tokenizer is immutable and cheap to copy; threads may share one.
class Tokenizer {
 public:
  /// Errors: a vocabulary that is contradictory (see check_vocabulary and BytePair::make). Throws
  /// MachineError if PCRE2 fails.
  static Result<Tokenizer> make(Vocabulary vocabulary);

  /// Encodes text, which may be any bytes. User-defined tokens are found wherever they are spelled
  /// out, the leftmost and then the longest first; the text between them is merged by the
  /// vocabulary's kind. Text is not normalized. SentencePiece: a space is put before text at the
  /// beginning and after a control token (if the vocabulary states so), and U+2581 is a space.
  std::vector<TokenId> encode(std::string_view text, EncodeOptions options = {}) const;

  /// The bytes that the ids stand for, without the spaces that `encode` puts before text. Ids
  /// outside of the vocabulary stand for nothing. decode(encode(text)) is the text if the
  /// vocabulary has a token for every byte.
  std::string decode(std::span<const TokenId> ids, DecodeOptions options = {}) const;

  /// The text that decode() adds for one more id. `drop_space`: a leading space of the id is
  /// dropped, because encode() put it before the text; updated for the next id. Initially:
  /// adds_space_prefix(), unless the ids continue other text.
  std::string_view next_text(TokenId id, bool& drop_space, const DecodeOptions& options) const;

  /// The bytes of one token, which may be incomplete characters. Empty outside of the vocabulary.
  std::string_view piece(TokenId id) const;

  /// The control or user-defined token with this text.
  std::optional<TokenId> special_token(std::string_view text) const;
  bool is_control(TokenId id) const;
  /// True if generation stops at this token: EOS, EOT, EOM, and tokens that end an answer in files
  /// that do not name them: control and user-defined tokens like "<|im_end|>" or "<|eot_id|>".
  bool ends_generation(TokenId id) const;

  std::size_t size() const;
  VocabularyKind kind() const;
  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;
  std::optional<TokenId> eot() const;
  std::optional<TokenId> unknown() const;
  std::optional<TokenId> pad() const;

  /// These values include defaults for what the vocabulary does not state.
  bool adds_bos() const;
  bool adds_space_prefix() const;

  /// Warnings for users about possible differences from the model's own tokenizer.
  const std::vector<std::string>& warnings() const;

 private:
  struct Parts;

  explicit Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

  std::shared_ptr<const Parts> parts_;
};

}  // namespace rigcast::engine
