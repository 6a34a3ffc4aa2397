#include "cli/ui/ui_service.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace rigcast::cli {
namespace {

constexpr const char* kJson = "application/json";
constexpr const char* kLines = "application/x-ndjson";
constexpr std::string_view kErrorBegin = "{\n  \"schema\": \"rigcast.error/1\"";

// Of every response. Nothing but this server's own files is loaded or run, nobody frames the page,
// and no other page reads what is answered.
std::string guarded(std::string_view cache) {
  return fmt::format(
      "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src "
      "'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors "
      "'none'\r\n"
      "X-Content-Type-Options: nosniff\r\n"
      "Referrer-Policy: no-referrer\r\n"
      "Cross-Origin-Opener-Policy: same-origin\r\n"
      "Cross-Origin-Resource-Policy: same-origin\r\n"
      "Cache-Control: {}\r\n",
      cache);
}

// As the command prints errors: rigcast.error/1.
HttpReply error_reply(int status, std::string_view kind, const Error& error) {
  using Json = nlohmann::ordered_json;
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? Json() : Json(text);
  };
  const Json body = {{"schema", "rigcast.error/1"},
                     {"error",
                      {{"kind", kind},
                       {"message", error.message},
                       {"hint", text_or_null(error.hint)},
                       {"key", text_or_null(error.key)},
                       {"file", nullptr},
                       {"line", nullptr},
                       {"column", nullptr}}}};
  std::string more = guarded("no-store");
  if (status == 503) more += "Retry-After: 1\r\n";
  return {status, kJson, body.dump(2, ' ', false, Json::error_handler_t::replace) + "\n", more};
}

HttpReply refused(int status, std::string message, std::string hint = {}) {
  return error_reply(status, status < 500 ? "bad_input" : "machine",
                     bad_input(std::move(message), std::move(hint)));
}

// What a worker printed is the body, be it an answer or the command's own error.
HttpReply reply_of(WorkerOutput output) {
  if (output.code == WorkerOutput::kTooLong)
    return refused(504, "the question took too long", "ask for less at once");
  const bool has_error = std::string_view(output.text).starts_with(kErrorBegin);
  if (output.code < 0 || output.text.empty() || (output.code == kLastExitCode && !has_error))
    return refused(500, "the question ended without an answer", "the command may say more");
  const int status = !has_error ? 200 : output.code == kLastExitCode ? 500 : 422;
  return {status, kJson, std::move(output.text), guarded("no-store")};
}

// JSON as one line: within its texts there are no line ends.
std::string one_line(std::string_view json) {
  std::string out;
  for (std::size_t i = 0; i < json.size();) {
    if (json[i] != '\n') {
      out += json[i++];
      continue;
    }
    i = std::min(json.find_first_not_of(" \n", i), json.size());
  }
  return out + "\n";
}

// How an answer reaches its client: by itself or, if it asks for lines and progress was made before
// it, as the last line of a stream.
class Reply {
 public:
  Reply(std::weak_ptr<HttpExchange> exchange, bool takes_lines)
      : exchange_(std::move(exchange)), takes_lines_(takes_lines) {}

  void progress(std::string_view line) {
    const auto exchange = exchange_.lock();
    if (!exchange || !takes_lines_) return;
    if (!std::exchange(has_begun_, true)) exchange->begin_stream(kLines, guarded("no-store"));
    exchange->send_part(one_line(line));
  }
  void finish(const HttpReply& reply) {
    const auto exchange = exchange_.lock();
    if (!exchange) return;
    has_begun_ ? exchange->end_stream(one_line(reply.body)) : exchange->reply(reply);
  }

 private:
  std::weak_ptr<HttpExchange> exchange_;
  bool takes_lines_, has_begun_ = false;
};

class DeskAnswer : public HttpAnswer {
 public:
  DeskAnswer(std::shared_ptr<AnswerDesk::Ticket> ticket, std::shared_ptr<Reply> reply)
      : ticket_(std::move(ticket)), reply_(std::move(reply)) {}
  void stop() override { reply_->finish(refused(503, "the server stops")); }

 private:
  std::shared_ptr<AnswerDesk::Ticket> ticket_;
  std::shared_ptr<Reply> reply_;
};

}  // namespace

const PageFile* UiService::file_at(std::string_view path) const {
  const auto found = std::ranges::find(files_, path, &PageFile::path);
  return found == files_.end() ? nullptr : &*found;
}

// A page of another site may send requests here through a browser, under its own name or, once its
// name leads to this machine, under that of this server.
std::optional<HttpReply> UiService::refuse_origin(const HttpHead& head) const {
  const std::string hosts[] = {fmt::format("127.0.0.1:{}", port_.load()),
                               fmt::format("localhost:{}", port_.load())};
  const auto host = head.all("Host");
  if (host.size() != 1 || std::ranges::find(hosts, host.front()) == std::end(hosts))
    return refused(421, "this server has another name", fmt::format("http://{}/", hosts[0]));
  for (const std::string_view origin : head.all("Origin"))
    if (origin != fmt::format("http://{}", host.front()))
      return refused(403, "the request comes from another page");
  for (const std::string_view site : head.all("Sec-Fetch-Site"))
    if (site != "same-origin" && site != "none")
      return refused(403, "the request comes from another page");
  return std::nullopt;
}

std::optional<HttpReply> UiService::refuse(const HttpHead& head) {
  if (auto error = refuse_origin(head)) return error;
  const std::string_view path = head.path();
  const bool takes_body = takes_question(path);
  if (!takes_body && !is_question(path) && path != "/api/health" && !file_at(path))
    return refused(404, "nothing is served here");
  if (const char* takes = takes_body ? "POST" : "GET"; head.method != takes) {
    HttpReply error = refused(405, fmt::format("{} is served here", takes));
    error.more += fmt::format("Allow: {}\r\n", takes);
    return error;
  }
  const std::string_view type = head.first("Content-Type");
  if (takes_body && type.substr(0, type.find(';')) != kJson)
    return refused(415, "the body is JSON: Content-Type: application/json");
  return std::nullopt;
}

std::unique_ptr<HttpAnswer> UiService::answer(const HttpHead& head, std::string body,
                                              std::shared_ptr<HttpExchange> exchange) {
  const std::string_view path = head.path();
  if (const PageFile* file = file_at(path)) {
    exchange->reply(file_reply(head, *file));
    return nullptr;
  }
  if (path == "/api/health") {
    exchange->reply(health());
    return nullptr;
  }
  auto question = read_question(path, body);
  if (!question) {
    exchange->reply(error_reply(400, "bad_input", question.error()));
    return nullptr;
  }
  const auto reply = std::make_shared<Reply>(exchange, head.accepts(kLines));
  const WorkerListener listener{
      [reply](std::string_view line) { reply->progress(line); },
      [reply](WorkerOutput output) { reply->finish(reply_of(std::move(output))); }};
  auto ticket = desk_.ask(*std::move(question), exchange->loop(), listener);
  if (ticket) return std::make_unique<DeskAnswer>(std::move(ticket), reply);
  exchange->reply(refused(503, "too many questions wait", "ask again in a second"));
  return nullptr;
}

HttpReply UiService::error(int status, const std::string& message) {
  return refused(status, message);
}

HttpReply UiService::health() const {
  const nlohmann::ordered_json body = {
      {"version", RIGCAST_VERSION}, {"jobs", desk_.jobs()},         {"busy", desk_.busy()},
      {"waiting", desk_.waiting()}, {"answered", desk_.answered()}, {"refused", desk_.refused()}};
  return {200, kJson, body.dump(2) + "\n", guarded("no-store")};
}

HttpReply UiService::file_reply(const HttpHead& head, const PageFile& file) const {
  const std::string tag = fmt::format("\"{}\"", file.tag);
  // The page names its files with their tags.
  const bool is_tagged = head.target == fmt::format("{}?v={}", file.path, file.tag);
  std::string more = guarded(is_tagged ? "public, max-age=31536000, immutable" : "no-cache");
  more += fmt::format("ETag: {}\r\n", tag);
  if (head.first("If-None-Match") == tag) return {304, file.type, {}, more};
  return {200, file.type, file.text, more};
}

}  // namespace rigcast::cli
