#include "engine/serve/http/server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <condition_variable>
#include <ctime>
#include <exception>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "engine/serve/http/api_key.hpp"
#include "engine/serve/http/api_reply.hpp"
#include "engine/serve/http/generation.hpp"
#include "engine/serve/http/metrics.hpp"
#include "engine/serve/http/response_text.hpp"
#include "engine/serve/http/routes.hpp"
#include "engine/serve/http/token_mailbox.hpp"

namespace rigcast::engine {
namespace {

namespace net = boost::asio;
namespace http = boost::beast::http;
using tcp = net::ip::tcp;
using ErrorCode = boost::system::error_code;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kReadBytes = 16 << 10;     // that are asked of a socket at once
constexpr std::size_t kMaxReadAhead = 64 << 10;  // of further requests, while one is answered
constexpr milliseconds kLinger{500};  // for a client to read an error before the connection ends
constexpr milliseconds kRetryAccept{100};
constexpr milliseconds kStopTime{1000};
constexpr int kRetryAfter_s = 1;
constexpr Clock::time_point kDisarmed = Clock::time_point::max();
constexpr std::string_view kJson = "application/json";
constexpr std::string_view kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

std::string_view view(boost::string_view text) { return {text.data(), text.size()}; }

ApiError server_stops() { return {503, "the server stops", {}, "stopping"}; }

class Session;

}  // namespace

// All but `stopped` and what says so is used by the I/O thread alone, once it runs.
struct HttpServer::State : std::enable_shared_from_this<HttpServer::State> {
  State(HttpOptions o, ServedModel m, Completions& c)
      : options(std::move(o)),
        model(std::move(m)),
        completions(c),
        acceptor(io),
        accept_timer(io) {}

  std::optional<Error> listen();
  void accept();
  void take(tcp::socket socket);
  void run();
  void begin_to_stop();
  void note_end();
  std::string next_id(ApiKind kind) {
    return fmt::format("{}-{:016x}", kind == ApiKind::kChat ? "chatcmpl" : "cmpl", ids++);
  }

  const HttpOptions options;
  const ServedModel model;
  Completions& completions;
  const std::int64_t created = std::time(nullptr);
  std::uint16_t port = 0;
  net::io_context io{1};
  tcp::acceptor acceptor;
  net::steady_timer accept_timer;
  std::set<Session*> sessions;
  HttpMetrics metrics;
  bool stopping = false;
  std::uint64_t ids = std::uint64_t(std::random_device{}()) << 32;

  net::thread_pool readers{1};  // reads bodies and cuts texts into tokens, which may take a while
  std::thread thread;
  std::mutex mutex;
  std::condition_variable changed;
  bool stopped = false;  // no session is left
};

namespace {

// A connection: one request after the other. Its parts run on the I/O thread.
class Session : public std::enable_shared_from_this<Session> {
 public:
  using Server = HttpServer::State;

  Session(Server& server, tcp::socket socket)
      : server_(server),
        socket_(std::move(socket)),
        read_timer_(server.io),
        write_timer_(server.io) {
    server_.sessions.insert(this);
    server_.metrics.connections = int(server_.sessions.size());
  }
  ~Session() {
    if (completion_) server_.completions.cancel(*completion_);
    server_.sessions.erase(this);
    server_.metrics.connections = int(server_.sessions.size());
    server_.note_end();
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void start() { read_header(server_.options.request_time); }
  void stop();
  void close(std::uint64_t HttpMetrics::*cause = nullptr);

 private:
  enum class Phase { kReading, kAnswering, kClosing, kClosed };

  // Reading.
  void read_header(milliseconds time);
  void on_header(ErrorCode ec);
  void read_body();
  bool refuse_head();
  void refuse_malformed(ErrorCode ec);
  void watch();
  void watched(ErrorCode ec);
  void next_request();
  // Answering.
  void route();
  void prepare_answer();
  void submit(Result<PreparedRequest> prepared);
  void take(const TokenMailbox::Contents& got);
  void finish(Generation::End end);
  void reply(int status, std::string_view type, std::string_view body, std::string_view more = {});
  void reply_error(const ApiError& error);
  // Writing.
  void begin_stream();
  void send(std::string bytes);
  void send_body(std::string_view bytes);
  void write();
  void done();
  void linger();
  void drain();
  bool is_chunked() const { return parser_->get().version() >= 11; }

  template <class Body>
  void expire(net::steady_timer& timer, milliseconds time, Body body);

  Server& server_;
  tcp::socket socket_;
  net::steady_timer read_timer_, write_timer_;
  boost::beast::flat_buffer buffer_{kMaxReadAhead + (64 << 10)};
  std::optional<http::request_parser<http::string_body>> parser_;
  Phase phase_ = Phase::kReading;
  Endpoint endpoint_ = Endpoint::kNone;
  bool keep_alive_ = false, streams_ = false, watches_ = false, ends_ = false;

  std::string queue_, on_wire_;
  bool writes_ = false;
  Clock::time_point asked_;
  std::optional<PreparedRequest> prepared_;
  std::optional<Generation> generation_;
  std::optional<CompletionId> completion_;  // while the engine has it
};

template <class Body>
void Session::expire(net::steady_timer& timer, milliseconds time, Body body) {
  timer.expires_after(time);
  timer.async_wait([weak = weak_from_this(), body, &timer](ErrorCode ec) {
    const auto self = weak.lock();
    if (!ec && self && timer.expiry() <= Clock::now()) body(*self);
  });
}

void Session::read_header(milliseconds time) {
  if (server_.stopping) return close();
  phase_ = Phase::kReading;
  parser_.emplace();
  parser_->header_limit(server_.options.max_header_bytes);
  parser_->body_limit(server_.options.max_body_bytes);
  expire(read_timer_, time, [](Session& s) { s.close(&HttpMetrics::dropped_slow); });
  http::async_read_header(
      socket_, buffer_, *parser_,
      [self = shared_from_this()](ErrorCode ec, std::size_t) { self->on_header(ec); });
}

void Session::on_header(ErrorCode ec) {
  if (phase_ == Phase::kClosed) return;
  if (ec) return refuse_malformed(ec);
  keep_alive_ = parser_->get().keep_alive();
  if (refuse_head()) return;
  const auto expects = parser_->get()[http::field::expect];
  if (boost::beast::iequals(expects, "100-continue") && !parser_->is_done())
    send("HTTP/1.1 100 Continue\r\n\r\n");
  read_body();
}

// What needs no body to be refused is refused without one.
bool Session::refuse_head() {
  const auto& request = parser_->get();
  endpoint_ = endpoint_of(view(request.target()));
  const std::string& key = server_.options.api_key;
  ApiError error = check_head(endpoint_, view(request.method_string()),
                              view(request[http::field::content_type]));
  if (!key.empty() && needs_key(endpoint_) &&
      !shows_key(view(request[http::field::authorization]), key))
    error = {401, "no valid API key: Authorization: Bearer KEY", {}, "invalid_api_key"};
  if (error.status == 200) return false;
  read_timer_.expires_at(kDisarmed);
  keep_alive_ = keep_alive_ && parser_->is_done();
  reply_error(error);
  return true;
}

void Session::read_body() {
  http::async_read(socket_, buffer_, *parser_,
                   [self = shared_from_this()](ErrorCode ec, std::size_t) {
                     if (self->phase_ == Phase::kClosed) return;
                     self->read_timer_.expires_at(kDisarmed);
                     if (ec) return self->refuse_malformed(ec);
                     self->asked_ = Clock::now();
                     self->route();
                   });
}

void Session::refuse_malformed(ErrorCode ec) {
  read_timer_.expires_at(kDisarmed);
  keep_alive_ = false;
  if (ec.category() != http::make_error_code(http::error::end_of_stream).category() ||
      ec == http::error::end_of_stream || ec == http::error::partial_message)
    return close(ec == http::error::partial_message ? &HttpMetrics::dropped_disconnected : nullptr);
  if (ec == http::error::header_limit)
    return reply_error({431, "the header is larger than the server takes", {}, {}});
  if (ec == http::error::buffer_overflow || ec == http::error::body_limit)
    return reply_error({413,
                        fmt::format("the body is larger than the {} bytes that the server takes",
                                    server_.options.max_body_bytes),
                        {},
                        {}});
  reply_error({400, "no valid HTTP request: " + ec.message(), {}, {}});
}

// While an answer is computed, the socket is read: a client that leaves is noticed, and what it
// sends already belongs to its next request.
void Session::watch() {
  if (watches_ || phase_ != Phase::kAnswering || buffer_.size() >= kMaxReadAhead) return;
  watches_ = true;
  socket_.async_read_some(buffer_.prepare(kReadBytes),
                          [self = shared_from_this()](ErrorCode ec, std::size_t bytes) {
                            self->watches_ = false;
                            self->buffer_.commit(bytes);
                            self->watched(ec);
                          });
}

void Session::watched(ErrorCode ec) {
  if (ec == net::error::operation_aborted) ec = {};  // by next_request()
  switch (phase_) {
    case Phase::kReading: return ec ? close() : read_header(server_.options.request_time);
    case Phase::kAnswering: return ec ? close(&HttpMetrics::dropped_disconnected) : watch();
    case Phase::kClosing: return ec ? close() : drain();
    case Phase::kClosed: return;
  }
}

void Session::next_request() {
  generation_.reset();
  prepared_.reset();
  if (!watches_)
    return read_header(buffer_.size() > 0 ? server_.options.request_time
                                          : server_.options.idle_time);
  if (server_.stopping) return close();
  phase_ = Phase::kReading;  // the read that is under way goes on with the request
  ErrorCode ignored;
  if (buffer_.size() > 0) socket_.cancel(ignored);  // which has been sent already
  expire(read_timer_, server_.options.idle_time, [](Session& s) { s.close(); });
}

void Session::route() {
  phase_ = Phase::kAnswering;
  if (server_.stopping) return reply_error(server_stops());
  switch (endpoint_) {
    case Endpoint::kHealth: return reply(200, kJson, "{\"status\":\"ok\"}");
    case Endpoint::kModels:
      return reply(200, kJson, models_json(server_.model.id, server_.created));
    case Endpoint::kMetrics:
      return reply(200, kMetricsType, metrics_text(server_.completions.state(), server_.metrics));
    default: return prepare_answer();
  }
}

void Session::prepare_answer() {
  const ApiKind kind = endpoint_ == Endpoint::kChat ? ApiKind::kChat : ApiKind::kCompletion;
  watch();
  net::post(server_.readers, [weak = weak_from_this(), kind, &server = server_,
                              body = std::move(parser_->get().body())] {
    auto prepared = read_and_prepare(kind, body, server.model, server.completions.context());
    net::post(server.io, [weak, prepared = std::move(prepared)]() mutable {
      if (const auto self = weak.lock()) self->submit(std::move(prepared));
    });
  });
}

void Session::submit(Result<PreparedRequest> prepared) {
  if (phase_ != Phase::kAnswering || ends_) return;
  if (!prepared) {
    ApiError error = api_error_of(prepared.error());
    if (error.param == "model") {
      error.status = 404;
      error.code = "model_not_found";
    }
    return reply_error(error);
  }
  prepared_ = *std::move(prepared);
  generation_.emplace(*prepared_, server_.model.tokenizer,
                      ApiReply(prepared_->kind, server_.next_id(prepared_->kind), server_.created,
                               server_.model.id),
                      asked_);
  CompletionRequest& request = prepared_->completion;
  // On the engine's thread. The state that they keep is the I/O context's, to which they post.
  const auto box = std::make_shared<TokenMailbox>();
  const auto tell = [box, weak = weak_from_this(), server = server_.shared_from_this()] {
    net::post(server->io, [box, weak] {
      if (const auto self = weak.lock()) self->take(box->take());
    });
  };
  request.on_tokens = [box, tell](std::span<const std::int32_t> ids) {
    if (box->put(ids)) tell();
  };
  request.on_end = [box, tell](const CompletionEnd& end) {
    if (box->put_end(end)) tell();
  };
  const auto id = server_.completions.submit(std::move(request));
  if (!id) {
    generation_.reset();
    return reply_error(api_error_of(id.error()));
  }
  completion_ = *id;
}

void Session::take(const TokenMailbox::Contents& got) {
  if (phase_ != Phase::kAnswering || !generation_ || !completion_) return;
  if (!got.ids.empty()) {
    const bool was_stopped = generation_->stopped();
    if (generation_->streams() && !streams_) begin_stream();
    send_body(generation_->add(got.ids, got.when, server_.metrics));
    if (phase_ != Phase::kAnswering) return;
    if (generation_->stopped() && !was_stopped && !got.end)
      server_.completions.finish(*completion_);
  }
  if (!got.end) return;
  completion_.reset();
  finish(generation_->end(*got.end));
}

void Session::finish(Generation::End end) {
  // A stream of which nothing was sent can still say by its status that it failed.
  if (end.error && !streams_) return reply_error(*end.error);
  if (!generation_->streams()) return reply(200, kJson, end.bytes);
  if (!streams_) begin_stream();
  send_body(end.bytes);
  if (phase_ != Phase::kAnswering) return;
  if (is_chunked()) send(chunk_text({}));
  ends_ = true;
  if (!writes_) done();
}

void Session::reply(int status, std::string_view type, std::string_view body,
                    std::string_view more) {
  ++server_.metrics.responses[status];
  phase_ = Phase::kAnswering;
  ends_ = true;
  keep_alive_ = keep_alive_ && !server_.stopping;
  send(response_text({status, type, keep_alive_, more}, body));
}

void Session::reply_error(const ApiError& error) {
  std::string more;
  if (error.status == 401) more = "WWW-Authenticate: Bearer\r\n";
  if (error.status == 405) more = takes_post(endpoint_) ? "Allow: POST\r\n" : "Allow: GET\r\n";
  if (error.status == 429 || error.status == 503)
    more = fmt::format("Retry-After: {}\r\n", kRetryAfter_s);
  reply(error.status, kJson, error_json(error), more);
}

void Session::begin_stream() {
  ++server_.metrics.responses[200];
  streams_ = true;
  keep_alive_ = keep_alive_ && is_chunked();
  send(stream_head(is_chunked(), keep_alive_));
  send_body(generation_->begin());
}

void Session::send_body(std::string_view bytes) {
  if (bytes.empty() || phase_ != Phase::kAnswering) return;
  send(is_chunked() ? chunk_text(bytes) : std::string(bytes));
}

void Session::send(std::string bytes) {
  if (phase_ == Phase::kClosed) return;
  // One answer may be longer than a queue; a client that reads none of the last parts is slow.
  const std::size_t unsent = queue_.size() + on_wire_.size();
  if (unsent > 0 && unsent + bytes.size() > server_.options.max_unsent_bytes && !ends_)
    return close(&HttpMetrics::dropped_slow);
  queue_ += bytes;
  if (!writes_) write();
}

void Session::write() {
  writes_ = true;
  on_wire_ = std::exchange(queue_, {});
  expire(write_timer_, server_.options.write_time,
         [](Session& s) { s.close(&HttpMetrics::dropped_slow); });
  net::async_write(socket_, net::buffer(on_wire_),
                   [self = shared_from_this()](ErrorCode ec, std::size_t) {
                     self->writes_ = false;
                     self->on_wire_.clear();
                     self->write_timer_.expires_at(kDisarmed);
                     if (self->phase_ == Phase::kClosed) return;
                     if (ec) return self->close(&HttpMetrics::dropped_disconnected);
                     if (!self->queue_.empty()) return self->write();
                     if (self->ends_) self->done();
                   });
}

// The whole answer is sent.
void Session::done() {
  ends_ = streams_ = false;
  if (!keep_alive_ || server_.stopping) return linger();
  next_request();
}

// A connection that ends while its client still sends may end before the client has read why.
void Session::linger() {
  phase_ = Phase::kClosing;
  ErrorCode ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  expire(read_timer_, kLinger, [](Session& s) { s.close(); });
  drain();
}

void Session::drain() {
  if (watches_) return;  // the read that is under way goes on with it
  buffer_.clear();
  socket_.async_read_some(buffer_.prepare(kReadBytes),
                          [self = shared_from_this()](ErrorCode ec, std::size_t) {
                            if (self->phase_ == Phase::kClosed) return;
                            ec ? self->close() : self->drain();
                          });
}

void Session::close(std::uint64_t HttpMetrics::*cause) {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  if (cause) ++(server_.metrics.*cause);
  if (completion_) server_.completions.cancel(*std::exchange(completion_, {}));
  read_timer_.expires_at(kDisarmed);
  write_timer_.expires_at(kDisarmed);
  ErrorCode ignored;
  socket_.shutdown(tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
}

void Session::stop() {
  if (phase_ == Phase::kReading) return close();
  if (phase_ != Phase::kAnswering || ends_) return;  // it ends when it is written
  keep_alive_ = false;
  if (completion_) server_.completions.cancel(*std::exchange(completion_, {}));
  if (generation_ && streams_) return finish(generation_->abort(server_stops()));
  reply_error(server_stops());
}

}  // namespace

std::optional<Error> HttpServer::State::listen() {
  ErrorCode ec;
  const auto address =
      net::ip::make_address(options.host == "localhost" ? "127.0.0.1" : options.host, ec);
  if (ec)
    return bad_input(fmt::format("--host: \"{}\" is no address", options.host),
                     "127.0.0.1: this machine alone; 0.0.0.0: all that reach it");
  if (!address.is_loopback() && options.api_key.empty())
    return bad_input(fmt::format("others reach {}: an API key is needed there", options.host),
                     "--api-key KEY; or 127.0.0.1, this machine alone");
  const tcp::endpoint endpoint(address, options.port);
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(net::socket_base::reuse_address(true), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(net::socket_base::max_listen_connections, ec);
  if (!ec) port = acceptor.local_endpoint(ec).port();
  if (!ec) return std::nullopt;
  return Error{
      ErrorKind::kMachine,
      fmt::format("cannot listen on {}, port {}: {}", options.host, options.port, ec.message()),
      "--port N: another one; 0: any that is free",
      {}};
}

void HttpServer::State::accept() {
  acceptor.async_accept([this](ErrorCode ec, tcp::socket socket) {
    if (stopping) return;
    if (ec) {  // no descriptor is free, perhaps
      accept_timer.expires_after(kRetryAccept);
      accept_timer.async_wait([this](ErrorCode stopped_waiting) {
        if (!stopped_waiting && !stopping) accept();
      });
      return;
    }
    try {
      take(std::move(socket));
    } catch (const std::exception&) {
      // There is no memory for one more connection.
    }
    accept();
  });
}

void HttpServer::State::take(tcp::socket socket) {
  ErrorCode ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  // The kernel's share of what a slow client does not read is bounded, too.
  socket.set_option(net::socket_base::send_buffer_size(int(options.max_unsent_bytes)), ignored);
  if (int(sessions.size()) < options.max_connections)
    return std::make_shared<Session>(*this, std::move(socket))->start();
  ++metrics.responses[503];
  const std::string full = response_text({503, kJson, false, "Retry-After: 1\r\n"},
                                         error_json({503, "too many connections", {}, {}}));
  socket.non_blocking(true, ignored);
  socket.write_some(net::buffer(full), ignored);
}

void HttpServer::State::run() {
  for (bool again = true; again;) {
    try {
      io.run();
      again = false;
    } catch (const std::exception&) {
      // The connection that it came from is lost, the others go on.
    }
  }
}

void HttpServer::State::note_end() {
  if (!stopping || !sessions.empty()) return;
  const std::lock_guard lock(mutex);
  stopped = true;
  changed.notify_all();
}

void HttpServer::State::begin_to_stop() {
  stopping = true;
  ErrorCode ignored;
  acceptor.close(ignored);
  accept_timer.cancel();
  for (Session* session : std::vector(sessions.begin(), sessions.end())) session->stop();
  note_end();
}

Result<std::unique_ptr<HttpServer>> HttpServer::start(HttpOptions options, ServedModel model,
                                                      Completions& completions) {
  auto state = std::make_shared<State>(std::move(options), std::move(model), completions);
  if (auto error = state->listen()) return *error;
  state->accept();
  state->thread = std::thread([&s = *state] { s.run(); });
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

HttpServer::~HttpServer() { stop(); }

std::uint16_t HttpServer::port() const { return state_->port; }

void HttpServer::stop() {
  State& s = *state_;
  if (!s.thread.joinable()) return;
  net::post(s.io, [&s] { s.begin_to_stop(); });
  {
    std::unique_lock lock(s.mutex);
    s.changed.wait_for(lock, kStopTime, [&] { return s.stopped; });
  }
  s.io.stop();
  s.thread.join();
  s.readers.join();
  // Sessions are kept by what the I/O context would still call.
  for (Session* session : std::vector(s.sessions.begin(), s.sessions.end())) session->close();
  s.io.restart();
  s.io.poll();
}

}  // namespace rigcast::engine
