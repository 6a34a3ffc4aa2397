#pragma once
// Answers and errors in the shape of OpenAI's API. Bytes that are no UTF-8 become U+FFFD.

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/units.hpp"
#include "engine/chat/answer_text.hpp"
#include "engine/serve/http/api_request.hpp"

namespace rigcast::engine {

struct Usage {
  TokenCount prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
};

/// An error that a client gets. `code` is empty where OpenAI's API has null.
struct ApiError {
  int status = 500;  // of HTTP
  std::string message{};
  std::string param{};  // the body's member that is wrong
  std::string code{};
};

std::string error_json(const ApiError& error);
/// What the engine or a reader refuses: 429 where it does not fit now, 500 where the machine
/// failed, else 400.
ApiError api_error_of(const Error& error);

/// The list of one model. `created`: seconds since 1970.
std::string models_json(std::string_view model, std::int64_t created);

class ApiReply {
 public:
  ApiReply(ApiKind kind, std::string id, std::int64_t created, std::string model)
      : kind_(kind), id_(std::move(id)), created_(created), model_(std::move(model)) {}

  /// The whole answer. `reason`: "stop" or "length".
  std::string whole(const AnswerPart& answer, std::string_view reason, const Usage& usage) const;

  /// Parts of a stream. The first one of a chat names the role. `usage_to_come`: they have
  /// "usage": null, since a last one has it.
  std::string first(bool usage_to_come) const;
  std::string part(const AnswerPart& part, bool usage_to_come) const;
  std::string last(std::string_view reason, bool usage_to_come) const;
  std::string usage(const Usage& usage) const;

 private:
  ApiKind kind_;
  std::string id_;
  std::int64_t created_;
  std::string model_;
};

/// A server-sent event.
std::string sent_event(std::string_view data);

}  // namespace rigcast::engine
