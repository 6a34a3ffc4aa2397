#include "http/listener.hpp"

#include <fmt/format.h>

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "http/response_text.hpp"
#include "http/session.hpp"

namespace rigcast {
namespace {

namespace net = boost::asio;
using tcp = net::ip::tcp;
using ErrorCode = boost::system::error_code;
using std::chrono::milliseconds;

constexpr milliseconds kRetryAccept{100};
constexpr milliseconds kStopTime{1000};
constexpr milliseconds kLinger{500};  // for a client to read that there is no room
constexpr int kMaxFarewells = 256;    // of such clients at a time

Result<net::ip::address> address_of(const std::string& host) {
  ErrorCode ec;
  const auto address = net::ip::make_address(host == "localhost" ? "127.0.0.1" : host, ec);
  if (!ec) return address;
  return bad_input(fmt::format("--host: \"{}\" is no address", host),
                   "127.0.0.1: this machine alone; 0.0.0.0: all that reach it");
}

// A connection for which there is no room: what it sends is read, or it might end before its client
// has read why.
class Farewell : public std::enable_shared_from_this<Farewell> {
 public:
  Farewell(net::io_context& io, tcp::socket socket, int& open)
      : socket_(std::move(socket)), timer_(io), open_(open) {
    ++open_;
  }
  ~Farewell() { --open_; }
  Farewell(const Farewell&) = delete;
  Farewell& operator=(const Farewell&) = delete;

  void say(std::string text) {
    text_ = std::move(text);
    timer_.expires_after(kLinger);
    timer_.async_wait([self = shared_from_this()](ErrorCode) {
      ErrorCode ignored;
      self->socket_.close(ignored);
    });
    net::async_write(socket_, net::buffer(text_),
                     [self = shared_from_this()](ErrorCode ec, std::size_t) {
                       ErrorCode ignored;
                       self->socket_.shutdown(tcp::socket::shutdown_send, ignored);
                       ec ? self->end() : self->drain();
                     });
  }

 private:
  void drain() {
    socket_.async_read_some(net::buffer(sent_),
                            [self = shared_from_this()](ErrorCode ec, std::size_t) {
                              ec ? self->end() : self->drain();
                            });
  }
  void end() { timer_.cancel(); }

  tcp::socket socket_;
  net::steady_timer timer_;
  int& open_;
  std::string text_;
  std::array<char, 4096> sent_;
};

}  // namespace

// All but `stopped` and what says so is used by the I/O thread alone, once it runs.
struct HttpListener::State : HttpLoop, std::enable_shared_from_this<HttpListener::State> {
  State(const HttpLimits& limits, HttpService& service)
      : sessions(std::make_shared<HttpSessions>(HttpSessions{limits, service, io})),
        acceptor(io),
        accept_timer(io) {}

  void post(std::function<void()> what) override { net::post(io, std::move(what)); }
  net::io_context& context() override { return io; }
  const HttpCounts& counts() const override { return sessions->counts; }

  std::optional<Error> listen(const std::string& host, std::uint16_t at);
  void accept();
  void take(tcp::socket socket);
  void run();
  void begin_to_stop();
  void note_end();

  int farewells = 0;
  net::io_context io{1};
  std::shared_ptr<HttpSessions> sessions;
  std::uint16_t port = 0;
  tcp::acceptor acceptor;
  net::steady_timer accept_timer;

  std::thread thread;
  std::mutex mutex;
  std::condition_variable changed;
  bool stopped = false;  // no session is left
};

std::optional<Error> HttpListener::State::listen(const std::string& host, std::uint16_t at) {
  const auto address = address_of(host);
  if (!address) return address.error();
  const tcp::endpoint endpoint(*address, at);
  ErrorCode ec;
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(net::socket_base::reuse_address(true), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(net::socket_base::max_listen_connections, ec);
  if (!ec) port = acceptor.local_endpoint(ec).port();
  if (!ec) return std::nullopt;
  return Error{ErrorKind::kMachine,
               fmt::format("cannot listen on {}, port {}: {}", host, at, ec.message()),
               "--port N: another one; 0: any that is free",
               {}};
}

void HttpListener::State::accept() {
  acceptor.async_accept([this](ErrorCode ec, tcp::socket socket) {
    if (sessions->stopping) return;
    if (ec) {  // no descriptor is free, perhaps
      accept_timer.expires_after(kRetryAccept);
      accept_timer.async_wait([this](ErrorCode stopped_waiting) {
        if (!stopped_waiting && !sessions->stopping) accept();
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

void HttpListener::State::take(tcp::socket socket) {
  const HttpLimits& limits = sessions->limits;
  ErrorCode ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  // The kernel's share of what a slow client does not read is bounded, too.
  socket.set_option(net::socket_base::send_buffer_size(int(limits.max_unsent_bytes)), ignored);
  if (int(sessions->open.size()) < limits.max_connections)
    return std::make_shared<HttpSession>(sessions, std::move(socket))->start();
  const HttpReply full = sessions->service.error(503, "too many connections");
  ++sessions->counts.responses[full.status];
  const std::string text =
      response_text({full.status, full.content_type, false, full.more}, full.body);
  if (farewells < kMaxFarewells)
    std::make_shared<Farewell>(io, std::move(socket), farewells)->say(text);
}

void HttpListener::State::run() {
  for (bool again = true; again;) {
    try {
      io.run();
      again = false;
    } catch (const std::exception&) {
      // The connection that it came from is lost, the others go on.
    }
  }
}

void HttpListener::State::note_end() {
  if (!sessions->stopping || !sessions->open.empty()) return;
  const std::lock_guard lock(mutex);
  stopped = true;
  changed.notify_all();
}

void HttpListener::State::begin_to_stop() {
  sessions->stopping = true;
  ErrorCode ignored;
  acceptor.close(ignored);
  accept_timer.cancel();
  for (HttpSession* session : std::vector(sessions->open.begin(), sessions->open.end()))
    session->stop();
  note_end();
}

Result<std::unique_ptr<HttpListener>> HttpListener::start(const std::string& host,
                                                          std::uint16_t port,
                                                          const HttpLimits& limits,
                                                          HttpService& service) {
  auto state = std::make_shared<State>(limits, service);
  if (auto error = state->listen(host, port)) return *error;
  state->sessions->loop = state;
  state->sessions->note_end = [&s = *state] { s.note_end(); };
  state->accept();
  state->thread = std::thread([&s = *state] { s.run(); });
  return std::unique_ptr<HttpListener>(new HttpListener(std::move(state)));
}

HttpListener::~HttpListener() { stop(); }

std::uint16_t HttpListener::port() const { return state_->port; }
std::shared_ptr<HttpLoop> HttpListener::loop() const { return state_; }

void HttpListener::stop() {
  State& s = *state_;
  if (!s.thread.joinable()) return;
  net::post(s.io, [&s] { s.begin_to_stop(); });
  {
    std::unique_lock lock(s.mutex);
    s.changed.wait_for(lock, kStopTime, [&] { return s.stopped; });
  }
  s.io.stop();
  s.thread.join();
  // Sessions are kept by what the I/O context would still call.
  for (HttpSession* session : std::vector(s.sessions->open.begin(), s.sessions->open.end()))
    session->close();
  s.io.restart();
  s.io.poll();
  s.sessions->loop.reset();
}

Result<bool> is_loopback(const std::string& host) {
  const auto address = address_of(host);
  if (!address) return address.error();
  return address->is_loopback();
}

}  // namespace rigcast
