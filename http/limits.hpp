#pragma once
// What the clients of a server may take of it. More ends in an error or, where there is nobody to
// tell, in a closed connection.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>

namespace rigcast {

struct HttpLimits {
  std::uint32_t max_header_bytes = 16 << 10;
  std::uint64_t max_body_bytes = 4 << 20;
  std::size_t max_unsent_bytes =
      256 << 10;  // of a stream that its client does not read; the kernel holds as much again
  int max_connections = 512;
  std::chrono::milliseconds request_time{15'000};  // for a whole request, header and body
  std::chrono::milliseconds idle_time{60'000};     // between requests of a connection
  std::chrono::milliseconds write_time{15'000};    // for the socket to take what is sent at once
};

/// What a server counts. Used by one thread.
struct HttpCounts {
  int connections = 0;
  std::map<int, std::uint64_t> responses{};  // by status
  std::uint64_t dropped_slow = 0;            // clients that did not read or write in time
  std::uint64_t dropped_disconnected = 0;    // and those that left before the answer's end
};

}  // namespace rigcast
