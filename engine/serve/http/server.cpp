#include "engine/serve/http/server.hpp"

#include <fmt/format.h>

#include <utility>

#include "engine/serve/http/completion_service.hpp"
#include "http/listener.hpp"

namespace rigcast::engine {

struct HttpServer::Parts {
  Parts(ServedModel model, std::string api_key, Completions& completions)
      : service(std::move(model), std::move(api_key), completions) {}

  CompletionService service;
  std::unique_ptr<HttpListener> listener{};
};

HttpServer::HttpServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
HttpServer::~HttpServer() { stop(); }

Result<std::unique_ptr<HttpServer>> HttpServer::start(HttpOptions options, ServedModel model,
                                                      Completions& completions) {
  const auto loopback = is_loopback(options.host);
  if (!loopback) return loopback.error();
  if (!*loopback && options.api_key.empty())
    return bad_input(fmt::format("others reach {}: an API key is needed there", options.host),
                     "--api-key KEY; or 127.0.0.1, this machine alone");
  auto parts = std::make_unique<Parts>(std::move(model), options.api_key, completions);
  auto listener = HttpListener::start(options.host, options.port, options, parts->service);
  if (!listener) return listener.error();
  parts->listener = *std::move(listener);
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(parts)));
}

std::uint16_t HttpServer::port() const { return parts_->listener->port(); }
void HttpServer::stop() { parts_->listener->stop(); }

}  // namespace rigcast::engine
