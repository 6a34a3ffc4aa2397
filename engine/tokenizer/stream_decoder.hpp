#pragma once
// Text token by token, for a reader who should never see half a character.

#include <string>

#include "engine/tokenizer/tokenizer.hpp"

namespace rigcast::engine {

/// What `push` and `finish` give, put together, is Tokenizer::decode of the same ids.
class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, DecodeOptions options = {});

  /// The text that the token completes. Bytes that begin a character are held back until it is
  /// whole or can no longer become so; bytes that are no UTF-8 come as they are.
  std::string push(TokenId id);

  /// What is held back, whole or not. The decoder then begins anew.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  DecodeOptions options_;
  bool drop_space_;
  std::string held_;
};

}  // namespace rigcast::engine
