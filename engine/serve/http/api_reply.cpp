#include "engine/serve/http/api_reply.hpp"

#include <nlohmann/json.hpp>

namespace rigcast::engine {
namespace {

using Json = nlohmann::ordered_json;

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.output_tokens},
          {"total_tokens", usage.prompt_tokens + usage.output_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

const char* type_of_status(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 429: return "rate_limit_error";
    default: return status < 500 ? "invalid_request_error" : "server_error";
  }
}

Json message_json(const AnswerPart& part) {
  Json out = Json::object();
  if (!part.reasoning.empty()) out["reasoning_content"] = part.reasoning;
  if (!part.text.empty() || part.reasoning.empty()) out["content"] = part.text;
  return out;
}

Json head(std::string_view id, const char* object, std::int64_t created, std::string_view model) {
  return {{"id", id}, {"object", object}, {"created", created}, {"model", model}};
}

// One choice, as all answers have.
std::string with_choice(Json head, const char* content_key, Json content, Json reason,
                        bool usage_to_come) {
  Json choice = {{"index", 0}};
  choice[content_key] = std::move(content);
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = std::move(reason);
  head["choices"] = Json::array({std::move(choice)});
  if (usage_to_come) head["usage"] = nullptr;
  return dump(head);
}

const char* stream_object(ApiKind kind) {
  return kind == ApiKind::kChat ? "chat.completion.chunk" : "text_completion";
}

}  // namespace

std::string error_json(const ApiError& error) {
  const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  return dump({{"error",
                {{"message", error.message},
                 {"type", type_of_status(error.status)},
                 {"param", or_null(error.param)},
                 {"code", or_null(error.code)}}}});
}

ApiError api_error_of(const Error& error) {
  ApiError out{400, error.message, error.key, {}};
  if (error.kind == ErrorKind::kDoesNotFit) {
    out.status = 429;
    out.code = "queue_full";
  } else if (error.kind == ErrorKind::kMachine) {
    out.status = 500;
  }
  return out;
}

std::string models_json(std::string_view model, std::int64_t created) {
  const Json one = {
      {"id", model}, {"object", "model"}, {"created", created}, {"owned_by", "rigcast"}};
  return dump({{"object", "list"}, {"data", Json::array({one})}});
}

std::string ApiReply::whole(const AnswerPart& answer, std::string_view reason,
                            const Usage& usage) const {
  const bool chat = kind_ == ApiKind::kChat;
  Json out = head(id_, chat ? "chat.completion" : "text_completion", created_, model_);
  Json choice = {{"index", 0}};
  if (chat) {
    Json message = {{"role", "assistant"}, {"content", answer.text}};
    if (!answer.reasoning.empty()) message["reasoning_content"] = answer.reasoning;
    message["refusal"] = nullptr;
    choice["message"] = std::move(message);
  } else {
    choice["text"] = answer.text;
  }
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = reason;
  out["choices"] = Json::array({std::move(choice)});
  out["usage"] = usage_json(usage);
  return dump(out);
}

std::string ApiReply::first(bool usage_to_come) const {
  if (kind_ == ApiKind::kCompletion) return {};
  return with_choice(head(id_, stream_object(kind_), created_, model_), "delta",
                     {{"role", "assistant"}, {"content", ""}}, nullptr, usage_to_come);
}

std::string ApiReply::part(const AnswerPart& part, bool usage_to_come) const {
  const bool chat = kind_ == ApiKind::kChat;
  return with_choice(head(id_, stream_object(kind_), created_, model_), chat ? "delta" : "text",
                     chat ? message_json(part) : Json(part.text), nullptr, usage_to_come);
}

std::string ApiReply::last(std::string_view reason, bool usage_to_come) const {
  const bool chat = kind_ == ApiKind::kChat;
  return with_choice(head(id_, stream_object(kind_), created_, model_), chat ? "delta" : "text",
                     chat ? Json::object() : Json(""), reason, usage_to_come);
}

std::string ApiReply::usage(const Usage& usage) const {
  Json out = head(id_, stream_object(kind_), created_, model_);
  out["choices"] = Json::array();
  out["usage"] = usage_json(usage);
  return dump(out);
}

std::string sent_event(std::string_view data) {
  std::string out = "data: ";
  out += data;
  out += "\n\n";
  return out;
}

}  // namespace rigcast::engine
