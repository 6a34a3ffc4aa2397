#include "engine/serve/http/completion_service.hpp"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <ctime>
#include <random>
#include <utility>

#include "engine/serve/http/api_key.hpp"
#include "engine/serve/http/generation.hpp"
#include "engine/serve/http/routes.hpp"
#include "engine/serve/http/token_mailbox.hpp"

namespace rigcast::engine {
namespace {

constexpr int kRetryAfter_s = 1;
constexpr const char* kJson = "application/json";
constexpr const char* kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

HttpReply reply_of(const ApiError& error, Endpoint endpoint = Endpoint::kNone) {
  std::string more;
  if (error.status == 401) more = "WWW-Authenticate: Bearer\r\n";
  if (error.status == 405) more = takes_post(endpoint) ? "Allow: POST\r\n" : "Allow: GET\r\n";
  if (error.status == 429 || error.status == 503)
    more = fmt::format("Retry-After: {}\r\n", kRetryAfter_s);
  return {error.status, kJson, error_json(error), more};
}

ApiError server_stops() { return {503, "the server stops", {}, "stopping"}; }

}  // namespace

struct CompletionService::State {
  const ServedModel model;
  const std::string api_key;
  Completions& completions;
  const std::int64_t created = std::time(nullptr);
  TokenDurations durations{};
  std::uint64_t ids = std::uint64_t(std::random_device{}()) << 32;
  boost::asio::thread_pool readers{1};  // reads bodies and cuts texts into tokens, which may take
                                        // a while

  State(ServedModel m, std::string key, Completions& c)
      : model(std::move(m)), api_key(std::move(key)), completions(c) {}

  std::string next_id(ApiKind kind) {
    return fmt::format("{}-{:016x}", kind == ApiKind::kChat ? "chatcmpl" : "cmpl", ids++);
  }
};

namespace {

// A completion on its way to its client.
class CompletionAnswer : public HttpAnswer, public std::enable_shared_from_this<CompletionAnswer> {
 public:
  using Service = CompletionService::State;

  CompletionAnswer(Service& service, std::shared_ptr<HttpExchange> exchange)
      : service_(service), loop_(exchange->loop()), exchange_(exchange) {}
  ~CompletionAnswer() override {
    if (completion_) service_.completions.cancel(*completion_);
  }

  void begin(ApiKind kind, std::string body);
  void stop() override;

 private:
  void submit(Result<PreparedRequest> prepared);
  void take(const TokenMailbox::Contents& got);
  void finish(const Generation::End& end);
  void begin_stream(HttpExchange& exchange);

  Service& service_;
  std::shared_ptr<HttpLoop> loop_;
  std::weak_ptr<HttpExchange> exchange_;
  Generation::Clock::time_point asked_ = Generation::Clock::now();
  std::optional<PreparedRequest> prepared_;
  std::optional<Generation> generation_;
  std::optional<CompletionId> completion_;  // while the engine has it
  bool streams_ = false;
};

// The one that a connection holds.
class OwnedAnswer : public HttpAnswer {
 public:
  explicit OwnedAnswer(std::shared_ptr<CompletionAnswer> answer) : answer_(std::move(answer)) {}
  void stop() override { answer_->stop(); }

 private:
  std::shared_ptr<CompletionAnswer> answer_;
};

void CompletionAnswer::begin(ApiKind kind, std::string body) {
  boost::asio::post(service_.readers, [weak = weak_from_this(), loop = loop_, kind,
                                       body = std::move(body), &service = service_] {
    const auto prepared = std::make_shared<Result<PreparedRequest>>(
        read_and_prepare(kind, body, service.model, service.completions.context()));
    loop->post([weak, prepared] {
      if (const auto self = weak.lock()) self->submit(std::move(*prepared));
    });
  });
}

void CompletionAnswer::submit(Result<PreparedRequest> prepared) {
  const auto exchange = exchange_.lock();
  if (!exchange || !exchange->is_open()) return;
  if (!prepared) {
    ApiError error = api_error_of(prepared.error());
    if (error.param == "model") {
      error.status = 404;
      error.code = "model_not_found";
    }
    return exchange->reply(reply_of(error));
  }
  prepared_ = *std::move(prepared);
  generation_.emplace(*prepared_, service_.model.tokenizer,
                      ApiReply(prepared_->kind, service_.next_id(prepared_->kind),
                               std::time(nullptr), service_.model.id),
                      asked_);
  CompletionRequest& request = prepared_->completion;
  // On the engine's thread. The state that they keep is the loop's, to which they post.
  const auto box = std::make_shared<TokenMailbox>();
  const auto tell = [box, weak = weak_from_this(), loop = loop_] {
    loop->post([box, weak] {
      if (const auto self = weak.lock()) self->take(box->take());
    });
  };
  request.on_tokens = [box, tell](std::span<const std::int32_t> ids) {
    if (box->put(ids)) tell();
  };
  request.on_end = [box, tell](const CompletionEnd& end) {
    if (box->put_end(end)) tell();
  };
  const auto id = service_.completions.submit(std::move(request));
  if (!id) {
    generation_.reset();
    return exchange->reply(reply_of(api_error_of(id.error())));
  }
  completion_ = *id;
}

void CompletionAnswer::begin_stream(HttpExchange& exchange) {
  streams_ = true;
  exchange.begin_stream("text/event-stream", "Cache-Control: no-store\r\n");
  exchange.send_part(generation_->begin());
}

void CompletionAnswer::take(const TokenMailbox::Contents& got) {
  const auto exchange = exchange_.lock();
  if (!exchange || !exchange->is_open() || !generation_ || !completion_) return;
  if (!got.ids.empty()) {
    const bool was_stopped = generation_->stopped();
    if (generation_->streams() && !streams_) begin_stream(*exchange);
    exchange->send_part(generation_->add(got.ids, got.when, service_.durations));
    if (!exchange->is_open()) return;
    if (generation_->stopped() && !was_stopped && !got.end)
      service_.completions.finish(*completion_);
  }
  if (!got.end) return;
  completion_.reset();
  finish(generation_->end(*got.end));
}

void CompletionAnswer::finish(const Generation::End& end) {
  const auto exchange = exchange_.lock();
  if (!exchange) return;
  // A stream of which nothing was sent can still say by its status that it failed.
  if (end.error && !streams_) return exchange->reply(reply_of(*end.error));
  if (!generation_->streams()) return exchange->reply({200, kJson, end.bytes, {}});
  if (!streams_) begin_stream(*exchange);
  exchange->send_part(end.bytes);
  exchange->end_stream({});
}

void CompletionAnswer::stop() {
  if (completion_) service_.completions.cancel(*std::exchange(completion_, {}));
  if (generation_ && streams_) return finish(generation_->abort(server_stops()));
  if (const auto exchange = exchange_.lock()) exchange->reply(reply_of(server_stops()));
}

}  // namespace

CompletionService::CompletionService(ServedModel model, std::string api_key,
                                     Completions& completions)
    : state_(std::make_unique<State>(std::move(model), std::move(api_key), completions)) {}

CompletionService::~CompletionService() { state_->readers.join(); }

std::optional<HttpReply> CompletionService::refuse(const HttpHead& head) {
  const Endpoint endpoint = endpoint_of(head.path());
  ApiError error = check_head(endpoint, head.method, head.first("Content-Type"));
  const std::string& key = state_->api_key;
  if (!key.empty() && needs_key(endpoint) && !shows_key(head.first("Authorization"), key))
    error = {401, "no valid API key: Authorization: Bearer KEY", {}, "invalid_api_key"};
  if (error.status == 200) return std::nullopt;
  return reply_of(error, endpoint);
}

std::unique_ptr<HttpAnswer> CompletionService::answer(const HttpHead& head, std::string body,
                                                      std::shared_ptr<HttpExchange> exchange) {
  const Endpoint endpoint = endpoint_of(head.path());
  switch (endpoint) {
    case Endpoint::kHealth: exchange->reply({200, kJson, "{\"status\":\"ok\"}", {}}); break;
    case Endpoint::kModels:
      exchange->reply({200, kJson, models_json(state_->model.id, state_->created), {}});
      break;
    case Endpoint::kMetrics:
      exchange->reply(
          {200,
           kMetricsType,
           metrics_text(state_->completions.state(), exchange->loop()->counts(), state_->durations),
           {}});
      break;
    default: {
      const auto under_way = std::make_shared<CompletionAnswer>(*state_, exchange);
      under_way->begin(endpoint == Endpoint::kChat ? ApiKind::kChat : ApiKind::kCompletion,
                       std::move(body));
      return std::make_unique<OwnedAnswer>(under_way);
    }
  }
  return nullptr;
}

HttpReply CompletionService::error(int status, const std::string& message) {
  return reply_of({status, message, {}, {}});
}

}  // namespace rigcast::engine
