#include "engine/serve/http/served_model.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <exception>
#include <random>
#include <utility>

namespace rigcast::engine {
namespace {

constexpr TokenCount kDefaultCompletion = 16;  // as in OpenAI's API

Error refusal(std::string key, std::string message) {
  Error error = bad_input(std::move(message));
  error.key = std::move(key);
  return error;
}

std::string today() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(now));
}

std::uint64_t random_seed() {
  static std::atomic<std::uint64_t> next{std::uint64_t(std::random_device{}()) << 32};
  return next++;
}

Result<std::vector<std::int32_t>> chat_ids(const ApiRequest& request, const ServedModel& model) {
  if (!model.chat) return refusal("messages", model.why_no_chat);
  ChatPromptOptions options{.date = today()};
  if (request.reasoning_effort) {
    const std::string& effort = *request.reasoning_effort;
    if (model.chat->format() != ChatFormat::kGptOss ||
        (effort != "low" && effort != "medium" && effort != "high"))
      return refusal("reasoning_effort",
                     "reasoning_effort is low, medium or high of gpt-oss: other models have none");
    options.reasoning_effort = effort;
  }
  auto ids = model.chat->render(request.messages, options);
  if (!ids) return refusal("messages", ids.error().message);
  return ids;
}

Result<std::vector<std::int32_t>> prompt_ids(const ApiRequest& request, const ServedModel& model) {
  if (request.kind == ApiKind::kChat) return chat_ids(request, model);
  if (!request.prompt_ids.empty()) return request.prompt_ids;
  std::vector<std::int32_t> ids = model.tokenizer.encode(request.prompt);
  if (ids.empty()) return refusal("prompt", "the vocabulary has no token for any of the prompt");
  return ids;
}

// How many tokens an answer may have.
Result<TokenCount> answer_tokens(const ApiRequest& request, TokenCount prompt, TokenCount context) {
  const char* key = request.kind == ApiKind::kChat ? "messages" : "prompt";
  if (prompt >= context)
    return refusal(key, fmt::format("the prompt has {} tokens, and the context {} for it and the "
                                    "answer",
                                    prompt, context));
  const TokenCount room = context - prompt;
  if (!request.max_tokens)
    return request.kind == ApiKind::kChat ? room : std::min(kDefaultCompletion, room);
  if (*request.max_tokens <= room) return *request.max_tokens;
  return refusal("max_tokens",
                 fmt::format("a prompt of {} tokens and an answer of {} exceed the context of {}",
                             prompt, *request.max_tokens, context));
}

}  // namespace

ServedModel ServedModel::make(std::string id, Tokenizer tokenizer, Result<ChatPrompt> chat) {
  ServedModel out{std::move(id), std::move(tokenizer)};
  for (TokenId t = 0; std::size_t(t) < out.tokenizer.size(); ++t)
    if (out.tokenizer.ends_generation(t)) out.ends.push_back(t);
  if (chat) {
    out.chat = *std::move(chat);
    out.chat_ends = turn_ends(out.chat->format(), out.tokenizer);
  } else {
    out.why_no_chat = "chats are not served: " + chat.error().message;
  }
  return out;
}

Result<PreparedRequest> prepare(const ApiRequest& request, const ServedModel& model,
                                TokenCount context) {
  auto ids = prompt_ids(request, model);
  if (!ids) return ids.error();
  const auto beyond = [&](std::int32_t id) { return std::size_t(id) >= model.tokenizer.size(); };
  if (std::ranges::any_of(*ids, beyond))
    return refusal("prompt", fmt::format("the prompt has an id beyond the vocabulary of {} tokens",
                                         model.tokenizer.size()));
  const auto tokens = answer_tokens(request, TokenCount(ids->size()), context);
  if (!tokens) return tokens.error();

  PreparedRequest out;
  out.kind = request.kind;
  out.stream = request.stream;
  out.include_usage = request.include_usage;
  // A chat's answer begins behind a token, where a vocabulary may put a space before text.
  out.answer.continues =
      request.kind == ApiKind::kCompletion || !model.tokenizer.is_control(ids->back());
  out.answer.harmony =
      request.kind == ApiKind::kChat && model.chat->format() == ChatFormat::kGptOss;
  out.answer.stops = request.stops;
  out.completion.prompt = *std::move(ids);
  out.completion.max_tokens = *tokens;
  out.completion.sampling = request.sampling;
  if (!request.has_seed) out.completion.sampling.seed = random_seed();
  std::vector<std::int32_t>& stop_ids = out.completion.stop_ids;
  if (!request.ignore_eos) stop_ids = model.ends;
  if (!request.ignore_eos && request.kind == ApiKind::kChat)
    stop_ids.insert(stop_ids.end(), model.chat_ends.begin(), model.chat_ends.end());
  stop_ids.insert(stop_ids.end(), request.stop_ids.begin(), request.stop_ids.end());
  return out;
}

Result<PreparedRequest> read_and_prepare(ApiKind kind, std::string_view body,
                                         const ServedModel& model, TokenCount context) noexcept {
  try {
    const auto request = read_api_request(kind, body);
    if (!request) return request.error();
    if (request->model && *request->model != model.id)
      return refusal("model",
                     fmt::format("the model {} is not served: {} is", *request->model, model.id));
    return prepare(*request, model, context);
  } catch (const std::exception& e) {
    return Error{ErrorKind::kMachine, e.what(), {}, {}};
  }
}

}  // namespace rigcast::engine
