#pragma once
// Requests to an HTTP server of this machine, one after the other.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/units.hpp"

namespace rigcast::validation {

struct HttpAddress {
  std::string host, port, path;  // `path`: before every target, "" or "/v1"

  std::string text() const;  // "http://127.0.0.1:8080"
};

/// Of "http://127.0.0.1:8080", "localhost:8080", "http://[::1]:8080/v1". Errors: kBadInput where it
/// is no such address, or has https.
Result<HttpAddress> parse_http_address(const std::string& text);

/// True if the host is a name or an address of this machine's loopback interface.
bool is_loopback(const HttpAddress& address);

struct HttpResponse {
  struct Arrival {
    Seconds time;  // since the request was sent
    std::size_t bytes = 0;
  };

  int status = 0;
  std::string body;
  std::vector<Arrival> arrivals;  // of the body, each with how much of it had come by then

  /// When the body's first `bytes` had come.
  Seconds arrival(std::size_t bytes) const;
};

struct HttpLimits {
  Seconds time{30};  // of connecting, and then of the request as a whole
  std::size_t body_bytes = 16 << 20;
};

/// GET, or POST where there is a body, which is JSON. An interrupt ends it within a second. Errors:
/// kMachine with the address where nobody listens, the answer is none of HTTP's, is too large or
/// does not come in time.
Result<HttpResponse> http_request(const HttpAddress& address, const std::string& target,
                                  const std::optional<std::string>& body, const HttpLimits& limits);

}  // namespace rigcast::validation
