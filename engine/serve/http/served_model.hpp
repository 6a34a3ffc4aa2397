#pragma once
// The model that is served, and a request for it that the engine can take.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/units.hpp"
#include "engine/chat/answer_text.hpp"
#include "engine/chat/chat_prompt.hpp"
#include "engine/serve/completions.hpp"
#include "engine/serve/http/api_request.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace rigcast::engine {

struct ServedModel {
  std::string id;  // as clients name it
  Tokenizer tokenizer;
  std::optional<ChatPrompt> chat{};
  std::string why_no_chat{};              // in words, where there is none
  std::vector<std::int32_t> ends{};       // tokens that end an answer
  std::vector<std::int32_t> chat_ends{};  // those that end one in a chat, too

  /// With the ends of the vocabulary and of the chat's format.
  static ServedModel make(std::string id, Tokenizer tokenizer, Result<ChatPrompt> chat);
};

struct PreparedRequest {
  ApiKind kind = ApiKind::kCompletion;
  bool stream = false, include_usage = false;
  CompletionRequest completion{};  // without callbacks
  AnswerOptions answer{};
};

/// The tokens of a request, and where its answer ends. Without a length an answer to a chat may
/// fill the context, and a completion has 16 tokens. Errors, with the body's member as key: no chat
/// template, a prompt and an answer beyond the context, an id beyond the vocabulary.
Result<PreparedRequest> prepare(const ApiRequest& request, const ServedModel& model,
                                TokenCount context);

/// The same of a request's body. Further errors: those of read_api_request; another model (key
/// "model"); kMachine where the machine fails. Throws nothing.
Result<PreparedRequest> read_and_prepare(ApiKind kind, std::string_view body,
                                         const ServedModel& model, TokenCount context) noexcept;

}  // namespace rigcast::engine
