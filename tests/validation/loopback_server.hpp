#pragma once
// A server on a port of this machine that answers as a test says.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace rigcast::test {

/// In an answer: nothing is sent for kPauseTime.
inline constexpr char kPause = '\x02';
inline constexpr std::chrono::milliseconds kPauseTime{20};

inline std::string http_answer(const std::string& body, const std::string& status = "200 OK") {
  return "HTTP/1.1 " + status +
         "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\nConnection: close\r\n\r\n" + body;
}

/// Reads one request of each connection, sends what `answer` makes of it, and closes it. "": it is
/// left open, without an answer.
class LoopbackServer {
 public:
  using Answer = std::function<std::string(const std::string& request)>;

  explicit LoopbackServer(Answer answer) : answer_(std::move(answer)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    const bool listens = ::bind(listener_, reinterpret_cast<sockaddr*>(&at), size) == 0 &&
                         ::listen(listener_, 16) == 0;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size);
    port_ = listens ? ntohs(at.sin_port) : 0;
    thread_ = std::thread([this] { serve(); });
  }
  ~LoopbackServer() {
    stop_ = true;
    thread_.join();
    ::close(listener_);
    for (const int open : open_) ::close(open);
  }
  LoopbackServer(const LoopbackServer&) = delete;
  LoopbackServer& operator=(const LoopbackServer&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  int requests() const { return requests_; }

 private:
  static bool readable(int from, int milliseconds) {
    pollfd one{from, POLLIN, 0};
    return ::poll(&one, 1, milliseconds) > 0;
  }

  // Header and body of a request, as its Content-Length says.
  static std::string read(int from) {
    std::string text;
    char part[65536];
    for (std::size_t needed = 0; needed == 0 || text.size() < needed;) {
      const ssize_t got = readable(from, 2000) ? ::recv(from, part, sizeof part, 0) : 0;
      if (got <= 0) break;
      text.append(part, std::size_t(got));
      const auto head = text.find("\r\n\r\n");
      if (head == text.npos) continue;
      const auto length = text.find("Content-Length: ");
      needed = head + 4 + (length < head ? std::stoul(text.substr(length + 16)) : 0);
    }
    return text;
  }

  void serve() {
    while (!stop_) {
      if (!readable(listener_, 20)) continue;
      const int client = ::accept(listener_, nullptr, nullptr);
      const std::string text = answer_(read(client));
      ++requests_;
      if (text.empty()) {
        open_.push_back(client);
        continue;
      }
      send(client, text);
      ::close(client);
    }
  }

  static void send(int client, const std::string& text) {
    for (std::size_t sent = 0; sent < text.size();) {
      if (text[sent] == kPause) {
        std::this_thread::sleep_for(kPauseTime);
        ++sent;
        continue;
      }
      const std::size_t end = std::min(text.find(kPause, sent), text.size());
      const ssize_t now = ::send(client, text.data() + sent, end - sent, MSG_NOSIGNAL);
      if (now <= 0) return;
      sent += std::size_t(now);
    }
  }

  Answer answer_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stop_ = false;
  std::atomic<int> requests_ = 0;
  std::vector<int> open_;
  std::thread thread_;
};

}  // namespace rigcast::test
