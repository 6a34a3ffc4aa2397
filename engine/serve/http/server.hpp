#pragma once
// An HTTP server in the shape of OpenAI's API: completions, chats, the model, health and metrics.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "core/base/error.hpp"
#include "engine/serve/completions.hpp"
#include "engine/serve/http/served_model.hpp"

namespace rigcast::engine {

struct HttpOptions {
  std::string host = "127.0.0.1";  // an address, or localhost
  std::uint16_t port = 8080;       // 0: any that is free
  std::string api_key{};           // asked for everywhere but at /health; empty: none is

  // What a client may take. More ends in an error or, where there is nobody to tell, in a closed
  // connection.
  std::uint32_t max_header_bytes = 16 << 10;
  std::uint64_t max_body_bytes = 4 << 20;
  std::size_t max_unsent_bytes =
      256 << 10;  // of a stream that its client does not read; the kernel holds as much again
  int max_connections = 512;
  std::chrono::milliseconds request_time{15'000};  // for a whole request, header and body
  std::chrono::milliseconds idle_time{60'000};     // between requests of a connection
  std::chrono::milliseconds write_time{15'000};    // for the socket to take what is sent at once
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

  struct State;

 private:
  explicit HttpServer(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

}  // namespace rigcast::engine
