#include "validation/runs/process/http_client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>

#include "core/files/interrupt.hpp"

namespace rigcast::validation {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Clock = std::chrono::steady_clock;

bool is_port(std::string_view text) {
  const bool digits = std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  return digits && !text.empty() && text.size() <= 5 && std::stoi(std::string(text)) <= 65535;
}

// One connection, for one request. Every step is asynchronous, so that time limits and interrupts
// end it.
class Exchange {
 public:
  Exchange(const HttpAddress& address, const HttpLimits& limits)
      : address_(address), end_(Clock::now() + duration(limits.time)), stream_(io_) {
    parser_.body_limit(limits.body_bytes);
  }

  Result<HttpResponse> request(const std::string& target, const std::optional<std::string>& body) {
    request_ = {body ? http::verb::post : http::verb::get, address_.path + target, 11};
    request_.set(http::field::host, address_.host + ":" + address_.port);
    request_.set(http::field::user_agent, "rigcast");
    if (body) {
      request_.set(http::field::content_type, "application/json");
      request_.body() = *body;
    }
    request_.prepare_payload();
    resolver_.async_resolve(address_.host, address_.port, [&](auto error, auto found) {
      if (!failed("finding the host", error)) connect(found);
    });
    return finish();
  }

 private:
  static Clock::duration duration(Seconds time) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(time.value));
  }

  void connect(const asio::ip::tcp::resolver::results_type& found) {
    stream_.async_connect(found, [&](auto error, auto) {
      if (!failed("connecting", error)) send();
    });
  }

  void send() {
    http::async_write(stream_, request_, [&](auto error, std::size_t) {
      if (failed("sending", error)) return;
      sent_ = Clock::now();
      read();
    });
  }

  // Whatever has come, again and again: when it came tells when a server wrote it. An eager parser
  // would wait for the chunk after it.
  void read() {
    http::async_read_some(stream_, buffer_, parser_, [&](auto error, std::size_t) {
      if (failed("the answer", error)) return;
      const Seconds time{std::chrono::duration<double>(Clock::now() - sent_).count()};
      if (const auto bytes = parser_.get().body().size();
          bytes > (arrivals_.empty() ? 0 : arrivals_.back().bytes))
        arrivals_.push_back({time, bytes});
      done_ = parser_.is_done();
      if (!done_) read();
    });
  }

  bool failed(const char* step, const beast::error_code& error) {
    if (error) why_ = fmt::format("{}: {}", step, error.message());
    return bool(error);
  }

  Result<HttpResponse> finish() {
    constexpr auto kLook = std::chrono::milliseconds(200);
    const auto error = [&](std::string what) {
      return Error{ErrorKind::kMachine, fmt::format("{}: {}", address_.text(), what)};
    };
    while (io_.run_for(kLook), !io_.stopped()) {
      if (interrupted()) return error("interrupted");
      if (Clock::now() >= end_) return error("no answer in time");
    }
    if (!done_) return error(why_);
    return HttpResponse{int(parser_.get().result_int()), std::move(parser_.get().body()),
                        std::move(arrivals_)};
  }

  const HttpAddress& address_;
  const Clock::time_point end_;
  asio::io_context io_;
  asio::ip::tcp::resolver resolver_{io_};
  beast::tcp_stream stream_;
  http::request<http::string_body> request_;
  beast::flat_buffer buffer_;
  http::response_parser<http::string_body> parser_;
  std::vector<HttpResponse::Arrival> arrivals_;
  Clock::time_point sent_;
  bool done_ = false;
  std::string why_;
};

}  // namespace

Seconds HttpResponse::arrival(std::size_t bytes) const {
  const auto found = std::ranges::lower_bound(arrivals, bytes, {}, &Arrival::bytes);
  return found == arrivals.end() ? Seconds{} : found->time;
}

std::string HttpAddress::text() const {
  const bool is_v6 = host.find(':') != std::string::npos;
  return fmt::format("http://{}:{}{}", is_v6 ? "[" + host + "]" : host, port, path);
}

Result<HttpAddress> parse_http_address(const std::string& text) {
  const auto refused = [&](const char* why) {
    return bad_input(fmt::format("\"{}\" is no address of a server: {}", text, why),
                     "http://127.0.0.1:8080");
  };
  std::string_view rest = text;
  const auto scheme = rest.find("://");
  if (scheme != rest.npos) {
    if (rest.substr(0, scheme) == "https") return refused("https is not spoken, only http");
    if (rest.substr(0, scheme) != "http") return refused("it does not begin with http://");
    rest.remove_prefix(scheme + 3);
  }
  HttpAddress out;
  const auto slash = rest.find('/');
  if (slash != rest.npos) {
    out.path = rest.substr(slash);
    while (out.path.ends_with('/')) out.path.pop_back();
    rest = rest.substr(0, slash);
  }
  if (rest.starts_with('[')) {
    const auto end = rest.find(']');
    if (end == rest.npos) return refused("a [ without ]");
    out.host = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
  } else {
    const auto colon = rest.find(':');
    out.host = rest.substr(0, colon);
    rest = colon == rest.npos ? std::string_view() : rest.substr(colon);
  }
  if (!rest.empty() && (!rest.starts_with(':') || !is_port(rest.substr(1))))
    return refused("its port is no number up to 65535");
  out.port = rest.empty() ? "80" : rest.substr(1);
  const auto is_printable = [](char c) { return c > ' ' && c < 0x7f; };
  if (out.host.empty()) return refused("no host");
  if (!std::ranges::all_of(text, is_printable)) return refused("a blank or no ASCII in it");
  return out;
}

bool is_loopback(const HttpAddress& address) {
  if (address.host == "localhost") return true;
  beast::error_code error;
  const auto ip = asio::ip::make_address(address.host, error);
  return !error && ip.is_loopback();
}

Result<HttpResponse> http_request(const HttpAddress& address, const std::string& target,
                                  const std::optional<std::string>& body,
                                  const HttpLimits& limits) {
  return Exchange(address, limits).request(target, body);
}

}  // namespace rigcast::validation
