#include "http/response_text.hpp"

#include <fmt/format.h>

namespace rigcast {
namespace {

const char* reason_of(int status) {
  switch (status) {
    case 200: return "OK";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 413: return "Payload Too Large";
    case 415: return "Unsupported Media Type";
    case 421: return "Misdirected Request";
    case 422: return "Unprocessable Content";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    default: return "Internal Server Error";
  }
}

const char* connection_of(bool keep_alive) { return keep_alive ? "keep-alive" : "close"; }

}  // namespace

std::string response_text(const ResponseHead& head, std::string_view body) {
  return fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: {}\r\n{}\r\n{}",
      head.status, reason_of(head.status), head.content_type, body.size(),
      connection_of(head.keep_alive), head.more, body);
}

std::string stream_head(const ResponseHead& head, bool chunked) {
  return fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\n{}{}Connection: {}\r\n\r\n",
                     head.status, reason_of(head.status), head.content_type, head.more,
                     chunked ? "Transfer-Encoding: chunked\r\n" : "",
                     connection_of(head.keep_alive));
}

std::string chunk_text(std::string_view bytes) {
  return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
}

bool is_json_type(std::string_view content_type) {
  return content_type.substr(0, content_type.find(';')).find("json") != std::string_view::npos;
}

}  // namespace rigcast
