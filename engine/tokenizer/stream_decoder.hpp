#pragma once
// Incremental decoding, token by token, which never outputs a part of a character.

#include <string>

#include "engine/tokenizer/tokenizer.hpp"

namespace rigcast::engine {

/// The concatenated results of `push` and `finish` equal Tokenizer::decode of the same ids.
class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, DecodeOptions options = {});

  /// The text that the token completes. Bytes that begin a character are held back until it is
  /// complete or can no longer become so; invalid bytes are output unchanged.
  std::string push(TokenId id);

  /// Returns the bytes that are held back, complete or not, and resets the decoder.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  DecodeOptions options_;
  bool drop_space_;
  std::string held_;
};

}  // namespace rigcast::engine
