#pragma once
// What the body of a request asks for, as OpenAI's API spells it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/units.hpp"
#include "engine/chat/chat_prompt.hpp"
#include "engine/run/sampler.hpp"

namespace rigcast::engine {

enum class ApiKind { kCompletion, kChat };

struct ApiRequest {
  ApiKind kind = ApiKind::kCompletion;
  std::optional<std::string> model{};
  std::string prompt{};                    // of a completion; empty if it is ids
  std::vector<std::int32_t> prompt_ids{};  // not checked against the vocabulary
  std::vector<ChatMessage> messages{};     // of a chat
  std::optional<TokenCount> max_tokens{};  // at least 1
  Sampling sampling{};
  bool has_seed = false;
  std::vector<std::string> stops{};
  std::vector<std::int32_t> stop_ids{};
  bool ignore_eos = false;  // an answer is as long as max_tokens says
  bool stream = false, include_usage = false;
  std::optional<std::string> reasoning_effort{};
};

/// Reads a body. Errors name the member of the body in Error::key: one that is missing, of another
/// type or out of its range, and every one that would change the answer and is not supported.
Result<ApiRequest> read_api_request(ApiKind kind, std::string_view body);

}  // namespace rigcast::engine
