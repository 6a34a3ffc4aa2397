#pragma once
// Responses as bytes of HTTP/1.1.

#include <cstddef>
#include <string>
#include <string_view>

namespace rigcast {

struct ResponseHead {
  int status = 200;
  std::string_view content_type{};
  bool keep_alive = false;
  std::string_view more{};  // further lines, each with its end
};

/// A response with all of its body.
std::string response_text(const ResponseHead& head, std::string_view body);

/// The head of a stream; its body is made of chunks, or ends with the connection.
std::string stream_head(const ResponseHead& head, bool chunked);
/// A chunk; without bytes it is the last one.
std::string chunk_text(std::string_view bytes);

bool is_json_type(std::string_view content_type);

}  // namespace rigcast
