#pragma once
// A server over completions that echo the prompt.

#include <memory>
#include <string>
#include <utility>

#include "engine/serve/http/server.hpp"
#include "tests/engine/chat/chat_fixture.hpp"
#include "tests/engine/serve/http/echo_completions.hpp"
#include "tests/engine/serve/http/http_client.hpp"

namespace rigcast::fixtures {

inline engine::ServedModel echo_model() {
  const Tokenizer tokenizer = chat_tokenizer({"<|im_start|>", "<|im_end|>"});
  return engine::ServedModel::make(
      "echo", tokenizer, engine::ChatPrompt::make(engine::ChatFormat::kChatMl, tokenizer));
}

class EchoServer {
 public:
  explicit EchoServer(EchoCompletions::How how = {}, engine::HttpOptions options = {})
      : completions(how) {
    options.port = 0;
    auto started = engine::HttpServer::start(std::move(options), echo_model(), completions);
    if (!started) FAIL(started.error().text());
    server = *std::move(started);
  }

  std::uint16_t port() const { return server->port(); }
  /// Of a connection of its own.
  HttpResponse ask(const std::string& request) const {
    HttpClient client(port());
    client.send(request);
    return client.response();
  }

  EchoCompletions completions;  // outlives the server
  std::unique_ptr<engine::HttpServer> server;
};

inline nlohmann::json json_of(const HttpResponse& response) {
  auto parsed = nlohmann::json::parse(response.body, nullptr, false);
  if (parsed.is_discarded()) FAIL("no JSON: " << response.status << ' ' << response.body);
  return parsed;
}

/// Waits for what another thread brings about.
template <class Condition>
bool soon(Condition holds, std::chrono::milliseconds time = std::chrono::seconds(10)) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace rigcast::fixtures
