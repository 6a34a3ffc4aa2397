#pragma once
// What is served where.

#include <string_view>

#include "engine/serve/http/api_reply.hpp"

namespace rigcast::engine {

enum class Endpoint { kNone, kHealth, kMetrics, kModels, kCompletions, kChat };

Endpoint endpoint_of(std::string_view path);
bool takes_post(Endpoint endpoint);
bool needs_key(Endpoint endpoint);

/// What a request is refused with before its body is read; status 200: nothing.
ApiError check_head(Endpoint endpoint, std::string_view method, std::string_view content_type);

}  // namespace rigcast::engine
