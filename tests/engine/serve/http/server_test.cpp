// What clients of the server get, over sockets.

#include "engine/serve/http/server.hpp"

#include <chrono>
#include <ctime>

#include "tests/engine/serve/http/served_fixture.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::fixtures;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

constexpr const char* kCompletions = "/v1/completions";
constexpr const char* kChats = "/v1/chat/completions";

json completion(const EchoServer& server, const char* body) {
  const HttpResponse response = server.ask(post(kCompletions, body));
  INFO(response.body);
  REQUIRE(response.status == 200);
  return json_of(response);
}

// The texts of a stream's events, which end as they should.
std::vector<std::string> streamed_texts(const HttpResponse& response, bool chat) {
  REQUIRE(response.status == 200);
  REQUIRE(response.whole);
  auto all = events(response.body);
  REQUIRE(all.size() > 1);
  CHECK(all.back() == "[DONE]");
  all.pop_back();
  std::vector<std::string> texts;
  for (const std::string& event : all) {
    const json data = json::parse(event);  // throws where it is no UTF-8
    if (data["choices"].empty()) continue;
    const json& choice = data["choices"][0];
    texts.push_back(chat ? choice["delta"].value("content", std::string())
                         : choice["text"].get<std::string>());
  }
  return texts;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string all;
  for (const std::string& part : parts) all += part;
  return all;
}

std::string error_of(const HttpResponse& r, const char* member) {
  const json error = json_of(r)["error"];
  return error[member].is_null() ? "null" : error[member].get<std::string>();
}

}  // namespace

TEST_CASE("A completion goes on from its prompt, and is counted", "[serve]") {
  const EchoServer server;
  const json r = completion(server, R"({"model":"echo","prompt":"abc","max_tokens":5})");
  CHECK(r["object"] == "text_completion");
  CHECK(r["model"] == "echo");
  CHECK(r["choices"][0]["text"] == "abcab");
  CHECK(r["choices"][0]["finish_reason"] == "length");
  CHECK(r["usage"] == json::parse(R"({"prompt_tokens":3,"completion_tokens":5,"total_tokens":8,
                                      "prompt_tokens_details":{"cached_tokens":0}})"));
  CHECK(completion(server, R"({"prompt":[97,98],"max_tokens":3})")["choices"][0]["text"] == "aba");
  // As in OpenAI's API, 16 tokens are the default.
  CHECK(completion(server, R"({"prompt":["a"]})")["choices"][0]["text"] == std::string(16, 'a'));
}

TEST_CASE("An answer is dated when it was asked for, the model when it was loaded", "[serve]") {
  const EchoServer server;
  const auto loaded = json_of(server.ask(get("/v1/models")))["data"][0]["created"];
  const auto later = [&] { return std::time(nullptr) > loaded.get<std::int64_t>(); };
  REQUIRE(soon(later));
  CHECK(completion(server, R"({"prompt":"a"})")["created"].get<std::int64_t>() >
        loaded.get<std::int64_t>());
}

TEST_CASE("A chat is rendered by its template, and ends at the token that ends a turn", "[serve]") {
  const EchoServer server;
  const HttpResponse r = server.ask(post(
      kChats,
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}],"user":"me"})"));
  INFO(r.body);
  REQUIRE(r.status == 200);
  const json answer = json_of(r);
  CHECK(answer["object"] == "chat.completion");
  CHECK(answer["choices"][0]["message"]["role"] == "assistant");
  CHECK(answer["choices"][0]["message"]["content"] == "user\nHi");
  CHECK(answer["choices"][0]["finish_reason"] == "stop");
}

TEST_CASE("A stream is the same text in events, and its usage at the end", "[serve]") {
  const EchoServer server;
  const HttpResponse chat = server.ask(
      post(kChats, R"({"stream":true,"stream_options":{"include_usage":true},"max_tokens":6,
                       "messages":[{"role":"user","content":"\u20ac!"}]})"));
  CHECK(chat.head.find("Content-Type: text/event-stream\r\n") != chat.head.npos);
  const auto texts = streamed_texts(chat, true);
  CHECK(joined(texts) == "user\n");  // the first of six tokens is the turn's
  const auto all = events(chat.body);
  CHECK(json::parse(all[0])["choices"][0]["delta"]["role"] == "assistant");
  CHECK(json::parse(all[0])["usage"].is_null());
  const json last = json::parse(all[all.size() - 2]);
  CHECK(last["choices"].empty());
  CHECK(last["usage"]["completion_tokens"] == 6);
  CHECK(json::parse(all[all.size() - 3])["choices"][0]["finish_reason"] == "length");
}

TEST_CASE("Characters are never cut between events", "[serve]") {
  const EchoServer server;
  const HttpResponse r =
      server.ask(post(kCompletions, R"({"prompt":"\u20acx","max_tokens":6,"stream":true})"));
  const auto texts = streamed_texts(r, false);
  CHECK(joined(texts) == "\u20acx\uFFFD");  // the last one ends with the answer
}

TEST_CASE("Answers end before their stops", "[serve]") {
  const EchoServer server;
  for (const char* body :
       {R"({"prompt":"abcdef","max_tokens":50,"stop":"cd"})",
        R"({"prompt":"abcdef","max_tokens":50,"stop":["xx","cd"],"stream":false})",
        R"({"prompt":"abcdef","max_tokens":50,"stop_token_ids":[99]})"}) {
    const json r = completion(server, body);
    CHECK(r["choices"][0]["text"] == "ab");
    CHECK(r["choices"][0]["finish_reason"] == "stop");
  }
  const auto texts = streamed_texts(
      server.ask(
          post(kCompletions, R"({"prompt":"abcdef","max_tokens":50,"stop":"cd","stream":true})")),
      false);
  CHECK(joined(texts) == "ab");
  CHECK(soon([&] { return server.completions.state().running == 0; }));
  CHECK(server.completions.state().completed == 4);
  CHECK(server.completions.state().cancelled == 0);
}

TEST_CASE("A connection serves one request after the other, also of those sent ahead", "[serve]") {
  const EchoServer server;
  HttpClient client(server.port());
  const std::string one = post(kCompletions, R"({"prompt":"a","max_tokens":2})");
  const std::string stream = post(kCompletions, R"({"prompt":"b","max_tokens":2,"stream":true})");
  client.send(one + stream + get("/health") + one);
  CHECK(json_of(client.response())["choices"][0]["text"] == "aa");
  CHECK(joined(streamed_texts(client.response(), false)) == "bb");
  CHECK(client.response().body == R"({"status":"ok"})");
  CHECK(json_of(client.response())["choices"][0]["text"] == "aa");
  client.send(get("/v1/models"));
  CHECK(json_of(client.response())["data"][0]["id"] == "echo");
}

TEST_CASE("HTTP/1.0 has streams without chunks, which end with the connection", "[serve]") {
  const EchoServer server;
  const std::string body = R"({"prompt":"ab","max_tokens":2,"stream":true})";
  const HttpResponse r = server.ask(
      "POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\n"
      "Content-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body);
  CHECK(r.head.find("chunked") == r.head.npos);
  CHECK(joined(streamed_texts(r, false)) == "ab");
}

TEST_CASE("Errors have OpenAI's shape, and name the member", "[serve]") {
  const EchoServer server({.context = 100});
  const auto refused = [&](const char* path, const char* body, const char* param) {
    const HttpResponse r = server.ask(post(path, body));
    INFO(body << '\n' << r.body);
    CHECK(r.status == 400);
    CHECK(error_of(r, "type") == "invalid_request_error");
    CHECK(error_of(r, "param") == param);
    return error_of(r, "message");
  };
  CHECK(refused(kCompletions, "{", "null") == "the body is not JSON");
  CHECK(refused(kCompletions, "[]", "null") == "the body is not a JSON object");
  CHECK(refused(kCompletions, R"({"prompt":"a","n":2})", "n") ==
        "n is not supported with this value");
  const std::string deep =
      R"({"prompt":"a","stop":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  CHECK(refused(kCompletions, deep.c_str(), "null") ==
        "values of the body are nested more than 32 deep");
  refused(kCompletions, R"({"prompt":["a","b"]})", "prompt");
  refused(kCompletions, R"({"prompt":[257000]})", "prompt");
  refused(kCompletions, R"({"prompt":[-1]})", "prompt");
  refused(kCompletions, R"({"prompt":"a","max_tokens":0})", "max_tokens");
  refused(kCompletions, R"({"prompt":"a","temperature":2.5})", "temperature");
  refused(kCompletions, R"({"prompt":"a","stop":[""]})", "stop");
  refused(kCompletions, R"({"prompt":"a","logprobs":5})", "logprobs");
  refused(kCompletions, R"({"prompt":"a","logprobs":0})", "logprobs");
  refused(kCompletions, R"({"prompt":"a","best_off":1})", "best_off");
  refused(kCompletions,
          R"({"prompt":"a","stream":true,"stream_options":{"continuous_usage_stats":true}})",
          "stream_options.continuous_usage_stats");
  refused(kChats, R"({"messages":[]})", "messages");
  refused(kChats, R"({"messages":[{"role":"tool","content":"a"}]})", "messages[0].role");
  refused(kChats, R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})",
          "messages[0].content");
  refused(kChats, R"({"messages":[{"role":"assistant","content":"a"}]})", "messages");
  refused(kChats, R"({"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function"}]})",
          "tools");
  CHECK(refused(kCompletions, R"({"prompt":"abc","max_tokens":98})", "max_tokens") ==
        "a prompt of 3 tokens and an answer of 98 exceed the context of 100");
}

TEST_CASE("What is not served has the status that says why", "[serve]") {
  HttpOptions options;
  options.max_body_bytes = 1000;
  options.max_header_bytes = 1000;
  const EchoServer server({}, options);
  const HttpResponse model = server.ask(post(kCompletions, R"({"model":"gpt","prompt":"a"})"));
  CHECK(model.status == 404);
  CHECK(error_of(model, "code") == "model_not_found");
  CHECK(server.ask(get("/v2")).status == 404);
  const HttpResponse method = server.ask(get(kCompletions));
  CHECK(method.status == 405);
  CHECK(method.head.find("Allow: POST\r\n") != method.head.npos);
  CHECK(server.ask("POST /v1/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}").status == 415);
  CHECK(server.ask(post(kCompletions, std::string(1001, ' '))).status == 413);
  CHECK(server.ask(get("/health", "X: " + std::string(1000, 'x') + "\r\n")).status == 431);
  CHECK(server.ask("GIBBERISH\r\n\r\n").status == 400);
}

TEST_CASE("A key is asked for everywhere but at /health", "[serve]") {
  HttpOptions options;
  options.api_key = "secret";
  const EchoServer server({}, options);
  const char* body = R"({"prompt":"a","max_tokens":1})";
  for (const char* header : {"", "Authorization: Bearer secreu\r\n", "Authorization: secret\r\n",
                             "Authorization: Bearer secret1\r\n", "Authorization: Bearer \r\n"}) {
    const HttpResponse r = server.ask(post(kCompletions, body, header));
    CHECK(r.status == 401);
    CHECK(error_of(r, "code") == "invalid_api_key");
    CHECK(server.ask(get("/metrics", header)).status == 401);
  }
  CHECK(server.ask(post(kCompletions, body, "Authorization: Bearer secret\r\n")).status == 200);
  CHECK(server.ask(get("/health")).status == 200);
}

TEST_CASE("Where others reach the server, it asks for a key", "[serve]") {
  EchoCompletions completions;
  HttpOptions options;
  options.port = 0;
  options.host = "0.0.0.0";
  const auto open = HttpServer::start(options, echo_model(), completions);
  REQUIRE_FALSE(open.ok());
  CHECK(open.error().message == "others reach 0.0.0.0: an API key is needed there");
  options.api_key = "x";
  CHECK(HttpServer::start(options, echo_model(), completions).ok());
  options.host = "example.org";
  CHECK_FALSE(HttpServer::start(options, echo_model(), completions).ok());
}

TEST_CASE("A full queue is 429, with the time after which to try again", "[serve]") {
  const EchoServer server({.step = 5ms, .running = 1, .waiting = 1});
  HttpClient first(server.port()), second(server.port());
  const std::string request = post(kCompletions, R"({"prompt":"a","max_tokens":10000})");
  first.send(request);
  second.send(request);
  REQUIRE(soon([&] { return server.completions.state().waiting == 1; }));
  const HttpResponse r = server.ask(request);
  CHECK(r.status == 429);
  CHECK(r.head.find("Retry-After: 1\r\n") != r.head.npos);
  CHECK(error_of(r, "type") == "rate_limit_error");
  // Who leaves makes room, whether it runs or waits.
  second.close();
  CHECK(soon([&] { return server.completions.state().cancelled == 1; }));
  first.close();
  CHECK(soon([&] { return server.completions.state().cancelled == 2; }));
}

TEST_CASE("A client that leaves within a stream is noticed", "[serve]") {
  const EchoServer server({.step = 1ms});
  HttpClient client(server.port());
  client.send(post(kCompletions, R"({"prompt":"a","max_tokens":90000,"stream":true})"));
  REQUIRE(client.receive());
  client.close();
  CHECK(soon([&] { return server.completions.state().cancelled == 1; }));
}

TEST_CASE("A client that does not read its stream is dropped", "[serve]") {
  HttpOptions options;
  options.max_unsent_bytes = 64 << 10;
  const EchoServer server({.step = 10us}, options);
  HttpClient client(server.port(), 4096);
  // Up to 20 MB of events, of which the sockets take a part of a megabyte.
  client.send(post(kCompletions, R"({"prompt":"a","max_tokens":99000,"stream":true})"));
  CHECK(soon([&] { return server.completions.state().cancelled == 1; }, 30s));
  CHECK(server.ask(get("/metrics")).body.find("rigcast_http_dropped_total{cause=\"slow\"} 1\n") !=
        std::string::npos);
}

TEST_CASE("Metrics count requests, tokens and times", "[serve]") {
  const EchoServer server({.step = 2ms});
  completion(server, R"({"prompt":"abc","max_tokens":5})");
  const HttpResponse r = server.ask(get("/metrics"));
  CHECK(r.status == 200);
  for (const char* line :
       {"rigcast_requests_total{outcome=\"completed\"} 1\n", "rigcast_prompt_tokens_total 3\n",
        "rigcast_output_tokens_total 5\n", "rigcast_time_to_first_token_seconds_count 1\n",
        "rigcast_inter_token_seconds_count 4\n",
        "rigcast_inter_token_seconds_bucket{le=\"+Inf\"} 4\n", "rigcast_http_connections 1\n",
        "rigcast_http_responses_total{code=\"200\"} 1\n",
        "# TYPE rigcast_inter_token_seconds histogram\n"})
    CHECK_THAT(r.body, Catch::Contains(line));
}

TEST_CASE("A stop ends answers with an error, and all connections, within two seconds", "[serve]") {
  EchoServer server({.step = 1ms, .running = 2});
  const std::string request = R"({"prompt":"a","max_tokens":90000,"stream":)";
  HttpClient stream(server.port()), whole(server.port()), waits(server.port()), idle(server.port());
  stream.send(post(kCompletions, request + "true}"));
  REQUIRE(stream.receive());
  whole.send(post(kCompletions, request + "false}"));
  REQUIRE(soon([&] { return server.completions.state().running == 2; }));
  waits.send(post(kCompletions, request + "true}"));
  REQUIRE(soon([&] { return server.completions.state().waiting == 1; }));
  const auto begin = std::chrono::steady_clock::now();
  server.server->stop();
  CHECK(std::chrono::steady_clock::now() - begin < 2s);
  CHECK(soon([&] { return server.completions.state().cancelled == 3; }));
  const HttpResponse events_then_error = stream.response();
  const auto all = events(events_then_error.body);
  CHECK(json::parse(all.back())["error"]["code"] == "stopping");
  CHECK(whole.response().status == 503);
  CHECK(waits.response().status == 503);
  idle.read_all();
  CHECK(idle.ended());
  CHECK_FALSE(HttpClient(server.port()).connected());
}
