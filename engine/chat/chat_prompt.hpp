#pragma once
// Messages of a chat as the token ids of a prompt.

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "engine/chat/chat_format.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace rigcast::engine {

enum class ChatRole { kSystem, kUser, kAssistant };

struct ChatMessage {
  ChatRole role = ChatRole::kUser;
  std::string text;  // any bytes
};

struct ChatPromptOptions {
  std::string date{};                       // "2025-06-28", of the system message of gpt-oss
  std::string reasoning_effort = "medium";  // low, medium or high; gpt-oss has no others
};

struct TurnFormat;

/// Tokens of the vocabulary at which an answer in this format ends, beside those at which any does
/// (Tokenizer::ends_generation).
std::vector<TokenId> turn_ends(ChatFormat format, const Tokenizer& tokenizer);

class ChatPrompt {
 public:
  /// Errors: the vocabulary lacks a token of the format.
  static Result<ChatPrompt> make(ChatFormat format, Tokenizer tokenizer);

  ChatFormat format() const { return format_; }

  /// The prompt after which the model writes the next answer. What tokens the format has between
  /// messages are ids of their own: text that spells one is text. Nothing is added that the
  /// messages do not say, but what a format always has in front. Errors: no message, or the last
  /// one is not the user's.
  Result<std::vector<TokenId>> render(std::span<const ChatMessage> messages,
                                      const ChatPromptOptions& options = {}) const;

 private:
  class Writer;

  ChatPrompt(ChatFormat format, Tokenizer tokenizer)
      : format_(format), tokenizer_(std::move(tokenizer)) {}

  void write_turns(const TurnFormat& format, std::span<const ChatMessage> messages,
                   Writer& out) const;
  void write_mistral_v1(std::span<const ChatMessage> messages, Writer& out) const;
  void write_mistral(std::span<const ChatMessage> messages, Writer& out) const;
  void write_gemma(std::span<const ChatMessage> messages, Writer& out) const;
  void write_gpt_oss(std::span<const ChatMessage> messages, const ChatPromptOptions& options,
                     Writer& out) const;
  void write_deepseek_v2(std::span<const ChatMessage> messages, Writer& out) const;

  ChatFormat format_;
  Tokenizer tokenizer_;
  std::map<std::string, TokenId, std::less<>> markers_;  // the format's tokens by their texts
  std::vector<std::string> structure_;  // texts of tokens that users' texts must not become
};

}  // namespace rigcast::engine
