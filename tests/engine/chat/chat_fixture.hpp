#pragma once
// Vocabularies of bytes and of the tokens that chat formats have.

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "engine/chat/chat_prompt.hpp"
#include "tests/engine/tokenizer/tokenizer_fixtures.hpp"

namespace rigcast::fixtures {

/// Byte pairs: 256 bytes, then BOS, EOS, and the special tokens.
inline Tokenizer chat_tokenizer(std::initializer_list<const char*> special,
                                TokenType type = TokenType::kControl) {
  Vocabulary v = byte_pair("gpt-2");
  v.bos = add(v, "<bos>", TokenType::kControl);
  v.eos = add(v, "<eos>", TokenType::kControl);
  v.add_bos = false;
  for (const char* text : special) add(v, text, type);
  auto made = Tokenizer::make(std::move(v));
  REQUIRE(made.ok());
  return *made;
}

/// SentencePiece: bytes, the space mark, and the special tokens.
inline Tokenizer piece_tokenizer(std::initializer_list<const char*> special, bool space_prefix,
                                 TokenType type = TokenType::kControl) {
  Vocabulary v = sentence_piece(true);
  add(v, "\xE2\x96\x81");
  v.add_space_prefix = space_prefix;
  for (const char* text : special) add(v, text, type);
  auto made = Tokenizer::make(std::move(v));
  REQUIRE(made.ok());
  return *made;
}

inline engine::ChatMessage system_message(std::string text) {
  return {engine::ChatRole::kSystem, std::move(text)};
}
inline engine::ChatMessage user(std::string text) {
  return {engine::ChatRole::kUser, std::move(text)};
}
inline engine::ChatMessage assistant(std::string text) {
  return {engine::ChatRole::kAssistant, std::move(text)};
}

/// The prompt with a bar before and behind every special token: text that only looks like one has
/// none.
inline std::string with_bars(const Tokenizer& tokenizer, const Ids& ids) {
  std::string text;
  for (const TokenId id : ids) {
    const std::string piece(tokenizer.piece(id));
    const bool special = tokenizer.is_control(id) || (piece.size() > 4 && piece.front() == '<');
    text += special ? "|" + piece + "|" : piece;
  }
  return text;
}

inline std::string rendered(engine::ChatFormat format, const Tokenizer& tokenizer,
                            const std::vector<engine::ChatMessage>& messages,
                            const engine::ChatPromptOptions& options = {}) {
  auto prompt = engine::ChatPrompt::make(format, tokenizer);
  if (!prompt) return prompt.error().message;
  auto ids = prompt->render(messages, options);
  return ids ? with_bars(tokenizer, *ids) : ids.error().message;
}

}  // namespace rigcast::fixtures
