#include "engine/serve/http/api_request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "http/json_body.hpp"

namespace rigcast::engine {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxStops = 16;
constexpr std::size_t kMaxMessages = 4096;
constexpr int kMaxDepth = 32;

// Members that change nothing of an answer.
constexpr std::string_view kIgnored[] = {"user",
                                         "metadata",
                                         "store",
                                         "service_tier",
                                         "safety_identifier",
                                         "prompt_cache_key",
                                         "prompt_cache_retention"};

// Members that are not supported, with the value at which they change nothing. null does not,
// either.
struct Neutral {
  std::string_view key;
  json value;
};
const std::vector<Neutral>& neutral_members() {
  static const std::vector<Neutral> all = {
      {"n", 1},
      {"best_of", 1},
      {"echo", false},
      {"suffix", ""},
      {"logprobs", false},  // 0 of a completion asks for those of its own tokens
      {"top_logprobs", 0},
      {"presence_penalty", 0},
      {"frequency_penalty", 0},
      {"repetition_penalty", 1},
      {"min_p", 0},
      {"logit_bias", json::object()},
      {"response_format", {{"type", "text"}}},
      {"tools", json::array()},
      {"tool_choice", "none"},
      {"tool_choice", "auto"},
      {"parallel_tool_calls", true},
      {"parallel_tool_calls", false},
      {"modalities", {"text"}},
      {"verbosity", "medium"},
  };
  return all;
}

class BodyReader {
 public:
  explicit BodyReader(json body) : body_(std::move(body)) {}

  const std::optional<Error>& error() const { return error_; }
  void refuse(std::string_view key, std::string message) {
    if (error_) return;
    error_ = bad_input(std::move(message));
    error_->key = key;
  }

  /// nullptr: absent or null.
  const json* find(std::string_view key) {
    known_.push_back(key);
    const auto found = body_.find(key);
    return found == body_.end() || found->is_null() ? nullptr : &*found;
  }

  bool flag(std::string_view key) {
    const json* value = find(key);
    if (value && !value->is_boolean()) refuse(key, fmt::format("{} is true or false", key));
    return value && value->is_boolean() && value->get<bool>();
  }

  std::optional<double> number(std::string_view key, double lo, double hi) {
    const json* value = find(key);
    if (!value) return std::nullopt;
    const double got = value->is_number() ? value->get<double>() : std::nan("");
    if (got >= lo && got <= hi) return got;
    refuse(key, fmt::format("{} is a number from {} to {}", key, lo, hi));
    return std::nullopt;
  }

  std::optional<std::int64_t> integer(std::string_view key, std::int64_t lo, std::int64_t hi) {
    const json* value = find(key);
    if (!value) return std::nullopt;
    if (const auto got = integer_of(*value); got && *got >= lo && *got <= hi) return got;
    refuse(key, fmt::format("{} is a whole number from {} to {}", key, lo, hi));
    return std::nullopt;
  }

  std::optional<std::string> text(std::string_view key) {
    const json* value = find(key);
    if (!value) return std::nullopt;
    if (value->is_string()) return value->get<std::string>();
    refuse(key, fmt::format("{} is a string", key));
    return std::nullopt;
  }

  static std::optional<std::int64_t> integer_of(const json& value) {
    if (value.is_number_unsigned() &&
        value.get<std::uint64_t>() > std::uint64_t(std::numeric_limits<std::int64_t>::max()))
      return std::nullopt;
    if (value.is_number_integer()) return value.get<std::int64_t>();
    return std::nullopt;
  }

  // What is left has no meaning here: it may be left out only if it changes nothing.
  void check_others() {
    for (const auto& [key, value] : body_.items()) {
      if (value.is_null() || std::ranges::find(known_, key) != known_.end()) continue;
      if (std::ranges::find(kIgnored, key) != std::end(kIgnored)) continue;
      if (!is_neutral(key, value))
        refuse(key, fmt::format("{} is not supported with this value", key));
    }
  }

 private:
  static bool is_neutral(const std::string& key, const json& value) {
    return std::ranges::any_of(neutral_members(),
                               [&](const Neutral& n) { return n.key == key && n.value == value; });
  }

  json body_;
  std::vector<std::string_view> known_;
  std::optional<Error> error_;
};

std::optional<std::vector<std::int32_t>> ids_of(const json& value) {
  std::vector<std::int32_t> ids;
  ids.reserve(value.size());
  for (const json& id : value) {
    const auto number = BodyReader::integer_of(id);
    if (!number || *number < 0 || *number > std::numeric_limits<std::int32_t>::max())
      return std::nullopt;
    ids.push_back(std::int32_t(*number));
  }
  return ids;
}

void read_prompt(BodyReader& body, ApiRequest& out) {
  const json* prompt = body.find("prompt");
  if (!prompt) return body.refuse("prompt", "prompt is missing");
  // A list of one prompt is that prompt.
  if (prompt->is_array() && prompt->size() == 1 && !prompt->front().is_number())
    prompt = &prompt->front();
  if (prompt->is_string()) {
    out.prompt = prompt->get<std::string>();
    if (out.prompt.empty()) body.refuse("prompt", "prompt is empty");
    return;
  }
  const auto ids = prompt->is_array() && !prompt->empty() ? ids_of(*prompt) : std::nullopt;
  if (!ids)
    return body.refuse("prompt",
                       "prompt is one text or one list of token ids: several prompts are "
                       "several requests");
  out.prompt_ids = *ids;
}

std::optional<ChatRole> role_of(const json& message) {
  const auto role = message.find("role");
  if (role == message.end() || !role->is_string()) return std::nullopt;
  if (*role == "system" || *role == "developer") return ChatRole::kSystem;
  if (*role == "user") return ChatRole::kUser;
  if (*role == "assistant") return ChatRole::kAssistant;
  return std::nullopt;
}

// A text, or a list of parts that are texts.
std::optional<std::string> content_of(const json& message) {
  const auto content = message.find("content");
  if (content == message.end()) return std::nullopt;
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) return std::nullopt;
  std::string text;
  for (const json& part : *content) {
    const bool is_text = part.is_object() && part.value("type", json()) == "text" &&
                         part.value("text", json()).is_string();
    if (!is_text) return std::nullopt;
    text += part["text"].get<std::string>();
  }
  return text;
}

void read_messages(BodyReader& body, ApiRequest& out) {
  const json* messages = body.find("messages");
  if (!messages || !messages->is_array() || messages->empty())
    return body.refuse("messages", "messages is a list of at least one message");
  if (messages->size() > kMaxMessages)
    return body.refuse("messages", fmt::format("there are more than {} messages", kMaxMessages));
  for (std::size_t i = 0; i < messages->size(); ++i) {
    const json& message = (*messages)[i];
    const std::string key = fmt::format("messages[{}]", i);
    if (!message.is_object()) return body.refuse(key, key + " is an object");
    const auto role = role_of(message);
    if (!role)
      return body.refuse(key + ".role",
                         key + ".role is system, developer, user or assistant: there are no tools");
    const auto tools = message.find("tool_calls");
    if (tools != message.end() && !tools->is_null() && !tools->empty())
      return body.refuse(key + ".tool_calls", key + ".tool_calls: there are no tools");
    auto text = content_of(message);
    if (!text)
      return body.refuse(key + ".content",
                         key + ".content is a text, or a list of parts of the type text");
    out.messages.push_back({*role, *std::move(text)});
  }
}

void read_stops(BodyReader& body, ApiRequest& out) {
  if (const json* stop = body.find("stop")) {
    const json list = stop->is_array() ? *stop : json::array({*stop});
    const bool texts = std::ranges::all_of(list, [](const json& text) {
      return text.is_string() && !text.get_ref<const std::string&>().empty();
    });
    if (!texts || list.size() > kMaxStops)
      return body.refuse(
          "stop", fmt::format("stop is a text or up to {} texts, none of them empty", kMaxStops));
    for (const json& text : list) out.stops.push_back(text.get<std::string>());
  }
  if (const json* stop = body.find("stop_token_ids")) {
    const auto ids = stop->is_array() && stop->size() <= 1024 ? ids_of(*stop) : std::nullopt;
    if (!ids) return body.refuse("stop_token_ids", "stop_token_ids is a list of token ids");
    out.stop_ids = *ids;
  }
}

void read_sampling(BodyReader& body, ApiRequest& out) {
  constexpr std::int64_t kMaxTopK = 1'000'000'000;
  out.sampling.temperature = float(body.number("temperature", 0, 2).value_or(1));
  out.sampling.top_p = float(body.number("top_p", 0, 1).value_or(1));
  // Others write -1 for all.
  out.sampling.top_k =
      int(std::max<std::int64_t>(body.integer("top_k", -1, kMaxTopK).value_or(0), 0));
  const auto seed = body.integer("seed", std::numeric_limits<std::int64_t>::min(),
                                 std::numeric_limits<std::int64_t>::max());
  out.has_seed = seed.has_value();
  out.sampling.seed = std::uint64_t(seed.value_or(0));
}

void read_length(BodyReader& body, ApiRequest& out) {
  constexpr std::int64_t kMaxTokens = std::numeric_limits<std::int32_t>::max();
  const auto tokens = body.integer("max_tokens", 1, kMaxTokens);
  const auto newer = out.kind == ApiKind::kChat
                         ? body.integer("max_completion_tokens", 1, kMaxTokens)
                         : std::nullopt;
  if (newer || tokens) out.max_tokens = TokenCount(newer ? *newer : *tokens);
}

void read_stream(BodyReader& body, ApiRequest& out) {
  out.stream = body.flag("stream");
  const json* options = body.find("stream_options");
  if (!options) return;
  if (!options->is_object() || !out.stream)
    return body.refuse("stream_options", "stream_options is an object, with stream = true");
  for (const auto& [key, value] : options->items())
    if (key != "include_usage" && !value.is_null() && value != json(false))
      return body.refuse("stream_options." + key,
                         fmt::format("stream_options.{} is not supported with this value", key));
  const json usage = options->value("include_usage", json(false));
  if (!usage.is_boolean())
    return body.refuse("stream_options.include_usage", "include_usage is true or false");
  out.include_usage = usage.get<bool>();
}

}  // namespace

Result<ApiRequest> read_api_request(ApiKind kind, std::string_view text) {
  auto parsed = parse_json_body(text, kMaxDepth);
  if (!parsed) return parsed.error();
  BodyReader body(*std::move(parsed));
  ApiRequest out;
  out.kind = kind;
  out.model = body.text("model");
  if (kind == ApiKind::kChat) {
    read_messages(body, out);
    out.reasoning_effort = body.text("reasoning_effort");
  } else {
    read_prompt(body, out);
  }
  read_length(body, out);
  read_sampling(body, out);
  read_stops(body, out);
  read_stream(body, out);
  out.ignore_eos = body.flag("ignore_eos");
  body.check_others();
  if (body.error()) return *body.error();
  return out;
}

}  // namespace rigcast::engine
