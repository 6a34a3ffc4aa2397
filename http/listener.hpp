#pragma once
// An HTTP/1.1 server on a thread of its own: connections, what clients may take, and a stop in good
// order. What it answers is its service's matter.

#include <cstdint>
#include <memory>
#include <string>

#include "core/base/error.hpp"
#include "http/limits.hpp"
#include "http/service.hpp"

namespace rigcast {

class HttpListener {
 public:
  /// Listens at `host` (an address, or localhost), and serves. Port 0: any that is free. `service`
  /// outlives the listener. Errors: no address; kMachine if the port cannot be listened on.
  static Result<std::unique_ptr<HttpListener>> start(const std::string& host, std::uint16_t port,
                                                     const HttpLimits& limits,
                                                     HttpService& service);
  ~HttpListener();
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  std::uint16_t port() const;
  std::shared_ptr<HttpLoop> loop() const;

  /// Ends within about a second: takes no more connections, has answers stopped, and closes the
  /// connections once what there is to say is sent.
  void stop();

  struct State;

 private:
  explicit HttpListener(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

/// True: that address, or localhost, is reached from this machine alone. Errors: no address.
Result<bool> is_loopback(const std::string& host);

}  // namespace rigcast
