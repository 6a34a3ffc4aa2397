#pragma once
// A connection: one request after the other. Used by the server's thread alone.

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "http/limits.hpp"
#include "http/service.hpp"

namespace rigcast {

class HttpSession;

/// What all connections of a server share.
struct HttpSessions {
  const HttpLimits limits;
  HttpService& service;
  boost::asio::io_context& io;
  HttpCounts counts{};
  std::set<HttpSession*> open{};
  bool stopping = false;
  std::shared_ptr<HttpLoop> loop{};  // while the server runs
  std::function<void()> note_end{};  // after the end of each
};

class HttpSession : public HttpExchange, public std::enable_shared_from_this<HttpSession> {
 public:
  HttpSession(std::shared_ptr<HttpSessions> all, boost::asio::ip::tcp::socket socket);
  ~HttpSession() override;
  HttpSession(const HttpSession&) = delete;
  HttpSession& operator=(const HttpSession&) = delete;

  void start() { read_header(all_->limits.request_time); }
  void stop();
  void close(std::uint64_t HttpCounts::*cause = nullptr);

  std::shared_ptr<HttpLoop> loop() const override { return all_->loop; }
  bool is_open() const override { return phase_ == Phase::kAnswering && !ends_; }
  void reply(const HttpReply& reply) override;
  void begin_stream(std::string_view content_type, std::string_view more) override;
  void send_part(std::string_view bytes) override;
  void end_stream(std::string_view last) override;

 private:
  using ErrorCode = boost::system::error_code;
  using Clock = std::chrono::steady_clock;
  enum class Phase { kReading, kAnswering, kClosing, kClosed };

  // Reading.
  void read_header(std::chrono::milliseconds time);
  void on_header(ErrorCode ec);
  bool refuse_head();
  void read_body();
  void refuse_malformed(ErrorCode ec);
  void watch();
  void watched(ErrorCode ec);
  void next_request();
  void answer();
  // Writing.
  void refuse(int status, const std::string& message);
  void send(std::string bytes);
  void write();
  void done();
  void retire();
  void linger();
  void drain();
  bool is_chunked() const { return parser_->get().version() >= 11; }

  template <class Body>
  void expire(boost::asio::steady_timer& timer, std::chrono::milliseconds time, Body body);

  std::shared_ptr<HttpSessions> all_;
  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer read_timer_, write_timer_;
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;
  Phase phase_ = Phase::kReading;
  HttpHead head_;
  std::unique_ptr<HttpAnswer> answer_;  // while it is worked on
  bool keep_alive_ = false, watches_ = false, ends_ = false;

  std::string queue_, on_wire_;
  bool writes_ = false;
};

}  // namespace rigcast
