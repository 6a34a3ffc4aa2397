#include "http/session.hpp"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <string_view>
#include <utility>

#include "http/response_text.hpp"

namespace rigcast {
namespace {

namespace net = boost::asio;
namespace http = boost::beast::http;
using tcp = net::ip::tcp;
using std::chrono::milliseconds;

constexpr std::size_t kReadBytes = 16 << 10;     // that are asked of a socket at once
constexpr std::size_t kMaxReadAhead = 64 << 10;  // of further requests, while one is answered
constexpr milliseconds kLinger{500};  // for a client to read an error before the connection ends
constexpr std::chrono::steady_clock::time_point kDisarmed =
    std::chrono::steady_clock::time_point::max();

std::string text(boost::string_view of) { return {of.data(), of.size()}; }

HttpHead head_of(const http::request_header<>& from) {
  HttpHead out{text(from.method_string()), text(from.target()), {}};
  for (const auto& field : from)
    out.fields.emplace_back(text(field.name_string()), text(field.value()));
  return out;
}

}  // namespace

HttpSession::HttpSession(std::shared_ptr<HttpSessions> all, tcp::socket socket)
    : all_(std::move(all)),
      socket_(std::move(socket)),
      read_timer_(all_->io),
      write_timer_(all_->io),
      buffer_(kMaxReadAhead + (64 << 10)) {
  all_->open.insert(this);
  all_->counts.connections = int(all_->open.size());
}

HttpSession::~HttpSession() {
  all_->open.erase(this);
  all_->counts.connections = int(all_->open.size());
  all_->note_end();
}

template <class Body>
void HttpSession::expire(net::steady_timer& timer, milliseconds time, Body body) {
  timer.expires_after(time);
  timer.async_wait([weak = weak_from_this(), body, &timer](ErrorCode ec) {
    const auto self = weak.lock();
    if (!ec && self && timer.expiry() <= Clock::now()) body(*self);
  });
}

void HttpSession::read_header(milliseconds time) {
  if (all_->stopping) return close();
  phase_ = Phase::kReading;
  parser_.emplace();
  parser_->header_limit(all_->limits.max_header_bytes);
  parser_->body_limit(all_->limits.max_body_bytes);
  expire(read_timer_, time, [](HttpSession& s) { s.close(&HttpCounts::dropped_slow); });
  http::async_read_header(
      socket_, buffer_, *parser_,
      [self = shared_from_this()](ErrorCode ec, std::size_t) { self->on_header(ec); });
}

void HttpSession::on_header(ErrorCode ec) {
  if (phase_ == Phase::kClosed) return;
  if (ec) return refuse_malformed(ec);
  keep_alive_ = parser_->get().keep_alive();
  head_ = head_of(parser_->get().base());
  if (refuse_head()) return;
  const auto expects = parser_->get()[http::field::expect];
  if (boost::beast::iequals(expects, "100-continue") && !parser_->is_done())
    send("HTTP/1.1 100 Continue\r\n\r\n");
  read_body();
}

// What needs no body to be refused is refused without one.
bool HttpSession::refuse_head() {
  const auto error = all_->service.refuse(head_);
  if (!error) return false;
  read_timer_.expires_at(kDisarmed);
  keep_alive_ = keep_alive_ && parser_->is_done();
  phase_ = Phase::kAnswering;
  reply(*error);
  return true;
}

void HttpSession::read_body() {
  http::async_read(socket_, buffer_, *parser_,
                   [self = shared_from_this()](ErrorCode ec, std::size_t) {
                     if (self->phase_ == Phase::kClosed) return;
                     self->read_timer_.expires_at(kDisarmed);
                     if (ec) return self->refuse_malformed(ec);
                     self->answer();
                   });
}

void HttpSession::refuse_malformed(ErrorCode ec) {
  read_timer_.expires_at(kDisarmed);
  keep_alive_ = false;
  if (ec.category() != http::make_error_code(http::error::end_of_stream).category() ||
      ec == http::error::end_of_stream || ec == http::error::partial_message)
    return close(ec == http::error::partial_message ? &HttpCounts::dropped_disconnected : nullptr);
  if (ec == http::error::header_limit)
    return refuse(431, "the header is larger than the server takes");
  if (ec == http::error::buffer_overflow || ec == http::error::body_limit)
    return refuse(413, fmt::format("the body is larger than the {} bytes that the server takes",
                                   all_->limits.max_body_bytes));
  refuse(400, "no valid HTTP request: " + ec.message());
}

// While an answer is computed, the socket is read: a client that leaves is noticed, and what it
// sends already belongs to its next request.
void HttpSession::watch() {
  if (watches_ || phase_ != Phase::kAnswering || buffer_.size() >= kMaxReadAhead) return;
  watches_ = true;
  socket_.async_read_some(buffer_.prepare(kReadBytes),
                          [self = shared_from_this()](ErrorCode ec, std::size_t bytes) {
                            self->watches_ = false;
                            self->buffer_.commit(bytes);
                            self->watched(ec);
                          });
}

void HttpSession::watched(ErrorCode ec) {
  if (ec == net::error::operation_aborted) ec = {};  // by next_request()
  switch (phase_) {
    case Phase::kReading: return ec ? close() : read_header(all_->limits.request_time);
    case Phase::kAnswering: return ec ? close(&HttpCounts::dropped_disconnected) : watch();
    case Phase::kClosing: return ec ? close() : drain();
    case Phase::kClosed: return;
  }
}

void HttpSession::next_request() {
  if (!watches_)
    return read_header(buffer_.size() > 0 ? all_->limits.request_time : all_->limits.idle_time);
  if (all_->stopping) return close();
  phase_ = Phase::kReading;  // the read that is under way goes on with the request
  ErrorCode ignored;
  if (buffer_.size() > 0) socket_.cancel(ignored);  // which has been sent already
  expire(read_timer_, all_->limits.idle_time, [](HttpSession& s) { s.close(); });
}

void HttpSession::answer() {
  phase_ = Phase::kAnswering;
  if (all_->stopping) return refuse(503, "the server stops");
  auto under_way =
      all_->service.answer(head_, std::move(parser_->get().body()), shared_from_this());
  if (!is_open()) return;
  answer_ = std::move(under_way);
  watch();
}

void HttpSession::refuse(int status, const std::string& message) {
  phase_ = Phase::kAnswering;
  reply(all_->service.error(status, message));
}

void HttpSession::reply(const HttpReply& reply) {
  if (!is_open()) return;
  ++all_->counts.responses[reply.status];
  ends_ = true;
  keep_alive_ = keep_alive_ && !all_->stopping;
  send(response_text({reply.status, reply.content_type, keep_alive_, reply.more}, reply.body));
}

void HttpSession::begin_stream(std::string_view content_type, std::string_view more) {
  if (!is_open()) return;
  ++all_->counts.responses[200];
  keep_alive_ = keep_alive_ && is_chunked();
  send(stream_head({200, content_type, keep_alive_, more}, is_chunked()));
}

void HttpSession::send_part(std::string_view bytes) {
  if (!is_open() || bytes.empty()) return;
  send(is_chunked() ? chunk_text(bytes) : std::string(bytes));
}

void HttpSession::end_stream(std::string_view last) {
  if (!is_open()) return;
  ends_ = true;
  std::string bytes(last);
  if (is_chunked()) bytes = (last.empty() ? "" : chunk_text(last)) + chunk_text({});
  if (!bytes.empty()) return send(std::move(bytes));
  if (!writes_) done();
}

void HttpSession::send(std::string bytes) {
  if (phase_ == Phase::kClosed) return;
  // One answer may be longer than a queue; a client that reads none of the last parts is slow.
  const std::size_t unsent = queue_.size() + on_wire_.size();
  if (unsent > 0 && unsent + bytes.size() > all_->limits.max_unsent_bytes && !ends_)
    return close(&HttpCounts::dropped_slow);
  queue_ += bytes;
  if (!writes_) write();
}

void HttpSession::write() {
  writes_ = true;
  on_wire_ = std::exchange(queue_, {});
  expire(write_timer_, all_->limits.write_time,
         [](HttpSession& s) { s.close(&HttpCounts::dropped_slow); });
  net::async_write(socket_, net::buffer(on_wire_),
                   [self = shared_from_this()](ErrorCode ec, std::size_t) {
                     self->writes_ = false;
                     self->on_wire_.clear();
                     self->write_timer_.expires_at(kDisarmed);
                     if (self->phase_ == Phase::kClosed) return;
                     if (ec) return self->close(&HttpCounts::dropped_disconnected);
                     if (!self->queue_.empty()) return self->write();
                     if (self->ends_) self->done();
                   });
}

// The whole answer is sent.
void HttpSession::done() {
  ends_ = false;
  retire();
  if (!keep_alive_ || all_->stopping) return linger();
  next_request();
}

// An answer ends in calls of its own, too: it is destroyed after them.
void HttpSession::retire() {
  if (answer_) net::post(all_->io, [answer = std::move(answer_)] {});
}

// A connection that ends while its client still sends may end before the client has read why.
void HttpSession::linger() {
  phase_ = Phase::kClosing;
  ErrorCode ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  expire(read_timer_, kLinger, [](HttpSession& s) { s.close(); });
  drain();
}

void HttpSession::drain() {
  if (watches_) return;  // the read that is under way goes on with it
  buffer_.clear();
  socket_.async_read_some(buffer_.prepare(kReadBytes),
                          [self = shared_from_this()](ErrorCode ec, std::size_t) {
                            if (self->phase_ == Phase::kClosed) return;
                            ec ? self->close() : self->drain();
                          });
}

void HttpSession::close(std::uint64_t HttpCounts::*cause) {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  if (cause) ++(all_->counts.*cause);
  retire();
  read_timer_.expires_at(kDisarmed);
  write_timer_.expires_at(kDisarmed);
  ErrorCode ignored;
  socket_.shutdown(tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
}

void HttpSession::stop() {
  if (phase_ == Phase::kReading) return close();
  if (!is_open()) return;  // it ends when it is written
  keep_alive_ = false;
  if (answer_) answer_->stop();
  if (is_open()) close();
}

}  // namespace rigcast
