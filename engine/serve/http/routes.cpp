#include "engine/serve/http/routes.hpp"

#include "http/response_text.hpp"

namespace rigcast::engine {

Endpoint endpoint_of(std::string_view path) {
  if (path == "/health") return Endpoint::kHealth;
  if (path == "/metrics") return Endpoint::kMetrics;
  if (path == "/v1/models") return Endpoint::kModels;
  if (path == "/v1/completions") return Endpoint::kCompletions;
  if (path == "/v1/chat/completions") return Endpoint::kChat;
  return Endpoint::kNone;
}

bool takes_post(Endpoint endpoint) {
  return endpoint == Endpoint::kCompletions || endpoint == Endpoint::kChat;
}

bool needs_key(Endpoint endpoint) { return endpoint != Endpoint::kHealth; }

ApiError check_head(Endpoint endpoint, std::string_view method, std::string_view content_type) {
  if (endpoint == Endpoint::kNone)
    return {404,
            "no such path: /v1/completions, /v1/chat/completions, /v1/models, /health and /metrics "
            "are served",
            {},
            {}};
  const std::string_view takes = takes_post(endpoint) ? "POST" : "GET";
  if (method != takes) return {405, "only " + std::string(takes) + " is served here", {}, {}};
  // A page in a browser can send other types to any server, without asking it first.
  if (takes_post(endpoint) && !is_json_type(content_type))
    return {415, "the body is JSON: Content-Type: application/json", {}, {}};
  return {200, {}, {}, {}};
}

}  // namespace rigcast::engine
