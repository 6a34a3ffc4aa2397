#pragma once
// An HTTP server in the shape of OpenAI's API: completions, chats, the model, health and metrics.

#include <cstdint>
#include <memory>
#include <string>

#include "core/base/error.hpp"
#include "engine/serve/completions.hpp"
#include "engine/serve/http/served_model.hpp"
#include "http/limits.hpp"

namespace rigcast::engine {

struct HttpOptions : HttpLimits {
  std::string host = "127.0.0.1";  // an address, or localhost
  std::uint16_t port = 8080;       // 0: any that is free
  std::string api_key{};           // asked for everywhere but at /health; empty: none is
};

class HttpServer {
 public:
  /// Listens, and serves on threads of its own. `completions` outlives the server; callbacks of its
  /// requests may come later. Errors: no address; one that others reach without an API key;
  /// kMachine if the port cannot be listened on.
  static Result<std::unique_ptr<HttpServer>> start(HttpOptions options, ServedModel model,
                                                   Completions& completions);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::uint16_t port() const;

  /// Ends within about a second: takes no more connections, cancels what the engine computes, tells
  /// clients that wait for it, and closes their connections.
  void stop();

 private:
  struct Parts;
  explicit HttpServer(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace rigcast::engine
