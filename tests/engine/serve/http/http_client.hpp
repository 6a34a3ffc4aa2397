#pragma once
// A client that sends any bytes, as slowly as a test wants.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rigcast::fixtures {

struct HttpResponse {
  int status = 0;      // 0: the connection ended before a whole head
  std::string head{};  // with the empty line
  std::string body{};  // of which chunks are put together
  bool whole = false;  // up to the end that the head announces
};

class HttpClient {
 public:
  /// `receive_bytes`: of the socket's buffer; 0: the usual.
  explicit HttpClient(std::uint16_t port, int receive_bytes = 0)
      : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_bytes > 0)
      ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0;
  }
  ~HttpClient() { close(); }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  bool connected() const { return connected_; }
  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  void end_of_sending() { ::shutdown(socket_, SHUT_WR); }

  /// False: the other side takes no more.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(std::size_t(sent));
    }
    return true;
  }

  /// Adds what comes to what is read. False: nothing came in time, or the end has.
  bool receive(std::chrono::milliseconds time = std::chrono::seconds(20)) {
    pollfd one{socket_, POLLIN, 0};
    if (::poll(&one, 1, int(time.count())) <= 0) return false;
    char part[65536];
    const ssize_t got = ::recv(socket_, part, sizeof part, 0);
    if (got <= 0) {
      ended_ = true;
      return false;
    }
    read_.append(part, std::size_t(got));
    return true;
  }
  bool ended() const { return ended_; }
  const std::string& unread() const { return read_; }
  void read_all(std::chrono::milliseconds time = std::chrono::seconds(20)) {
    while (receive(time)) {
    }
  }

  HttpResponse response(std::chrono::milliseconds time = std::chrono::seconds(20)) {
    HttpResponse out;
    while (!take_head(out))
      if (!receive(time)) return out;
    if (const auto at = out.head.find("Content-Length: "); at != out.head.npos) {
      const std::size_t length = std::strtoul(out.head.c_str() + at + 16, nullptr, 10);
      while (read_.size() < length && receive(time)) {
      }
      out.whole = read_.size() >= length;
      out.body = read_.substr(0, length);
      read_.erase(0, length);
    } else if (out.head.find("Transfer-Encoding: chunked") != out.head.npos) {
      while (!out.whole && take_chunk(out, time)) {
      }
    } else {
      read_all(time);
      out.whole = ended_;
      out.body = std::exchange(read_, {});
    }
    return out;
  }

 private:
  bool take_head(HttpResponse& out) {
    const auto end = read_.find("\r\n\r\n");
    if (end == read_.npos) return false;
    out.head = read_.substr(0, end + 4);
    read_.erase(0, end + 4);
    out.status = std::atoi(out.head.c_str() + out.head.find(' '));
    return true;
  }
  bool take_chunk(HttpResponse& out, std::chrono::milliseconds time) {
    std::size_t line = 0;
    while ((line = read_.find("\r\n")) == read_.npos)
      if (!receive(time)) return false;
    const std::size_t length = std::strtoul(read_.c_str(), nullptr, 16);
    while (read_.size() < line + length + 4)
      if (!receive(time)) return false;
    out.body += read_.substr(line + 2, length);
    read_.erase(0, line + length + 4);
    out.whole = length == 0;
    return true;
  }

  int socket_;
  bool connected_ = false, ended_ = false;
  std::string read_;
};

inline std::string post(std::string_view path, std::string_view body, std::string_view more = {}) {
  return "POST " + std::string(path) +
         " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n" + std::string(more) + "\r\n" + std::string(body);
}
inline std::string get(std::string_view path, std::string_view more = {}) {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(more) +
         "\r\n";
}

/// Data of the events of a stream.
inline std::vector<std::string> events(const std::string& body) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < body.size();) {
    const auto end = body.find("\n\n", at);
    if (end == body.npos || body.compare(at, 6, "data: ") != 0) return {"no event: " + body};
    out.push_back(body.substr(at + 6, end - at - 6));
    at = end + 2;
  }
  return out;
}

}  // namespace rigcast::fixtures
