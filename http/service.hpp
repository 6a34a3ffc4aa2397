#pragma once
// What a server answers, apart from how it deals with its clients (http/listener.hpp). All of it is
// called on the server's one thread, which nothing may hold up.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/limits.hpp"

namespace boost::asio {
class io_context;
}

namespace rigcast {

struct HttpHead {
  std::string method, target;
  std::vector<std::pair<std::string, std::string>> fields;  // as they came

  /// Values of the fields of that name, in any case.
  std::vector<std::string_view> all(std::string_view name) const;
  /// The first of them; empty: there is none.
  std::string_view first(std::string_view name) const;
  /// True if an Accept field names this media type, with a weight above 0 (RFC 9110, 12.5.1).
  /// Wildcards do not count: they are what clients send that ask for nothing in particular.
  bool accepts(std::string_view type) const;
  /// The target without its query.
  std::string_view path() const;
};

struct HttpReply {
  int status = 200;
  std::string content_type{};
  std::string body{};
  std::string more{};  // further lines of the head, each with its end; never a client's text
};

/// The server's thread. May be kept for longer than the server, which then does nothing any more.
class HttpLoop {
 public:
  virtual ~HttpLoop() = default;
  /// From any thread: calls `what` on the server's.
  virtual void post(std::function<void()> what) = 0;
  virtual boost::asio::io_context& context() = 0;
  virtual const HttpCounts& counts() const = 0;
};

/// A request whose answer is awaited. Once it has one, or its client is gone, calls do nothing.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  virtual std::shared_ptr<HttpLoop> loop() const = 0;
  virtual bool is_open() const = 0;

  virtual void reply(const HttpReply& reply) = 0;
  /// In place of a reply: a stream, part by part. `more`: as of a reply.
  virtual void begin_stream(std::string_view content_type, std::string_view more) = 0;
  virtual void send_part(std::string_view bytes) = 0;
  /// `last`: a part that may be of any size.
  virtual void end_stream(std::string_view last) = 0;
};

/// Work on an answer. It is destroyed when the answer is sent, or nobody waits for it any more.
class HttpAnswer {
 public:
  virtual ~HttpAnswer() = default;
  /// The server stops, and waits for a moment: what there is to say is to be said now.
  virtual void stop() = 0;
};

class HttpService {
 public:
  virtual ~HttpService() = default;
  /// Why the request needs no body to be refused; nullopt: it is read on.
  virtual std::optional<HttpReply> refuse(const HttpHead& head) = 0;
  /// nullptr: it has been answered.
  virtual std::unique_ptr<HttpAnswer> answer(const HttpHead& head, std::string body,
                                             std::shared_ptr<HttpExchange> exchange) = 0;
  /// An error that the server itself states, in the service's words.
  virtual HttpReply error(int status, const std::string& message) = 0;
};

}  // namespace rigcast
