// A llama-server that runs already: what it tells, what its timings come to, and servers that
// misbehave. scripts/llama-server.sh runs the real one.

#include "validation/runs/llama_cpp/server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "perfmodel/resolve_placement.hpp"
#include "tests/catch.hpp"
#include "tests/sim/scenario_fixtures.hpp"
#include "tests/validation/loopback_server.hpp"

using namespace rigcast;
using namespace rigcast::validation;
using Catch::Contains;
using fixtures::scenario;
using nlohmann::json;
using test::http_answer;
using test::LoopbackServer;

namespace {

constexpr const char* kProps =
    R"({"default_generation_settings": {"n_ctx": 4096}, "total_slots": 2, "model_path": "/m.gguf",)"
    R"( "build_info": "b7347-2fbe3b7b"})";

// The fixture's model, Llama 3.1 8B in Q4_K_M.
constexpr const char* kModels =
    R"({"data": [{"meta": {"n_vocab": 128256, "n_params": 8030261248, "size": 4913000000}}]})";
constexpr const char* kIdle = R"([{"id": 0, "is_processing": false}])";

json body_of(const std::string& request) {
  return json::parse(request.substr(request.find("\r\n\r\n") + 4));
}

// A streamed answer, each token of which takes a pause. Its own times are those of a server that
// does not wait for its GPU: none. `first`: tokens that the first event brings.
std::string streamed(int prompt, int output, int pauses_before = 1, int first = 1) {
  const auto chunk = [](const json& event) {
    const std::string text = "data: " + event.dump() + "\n\n";
    return fmt::format("{:x}\r\n{}\r\n", text.size(), text);
  };
  std::string out =
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
      "Connection: close\r\n\r\n";
  out.append(std::size_t(pauses_before), test::kPause);
  for (int i = first; i < output; ++i)
    out += chunk({{"content", "a"}, {"stop", false}, {"tokens_predicted", i}}) + test::kPause;
  out += chunk({{"content", "a"},
                {"stop", true},
                {"timings",
                 {{"prompt_n", prompt},
                  {"prompt_ms", 0.001},
                  {"predicted_n", output},
                  {"predicted_ms", 0.001}}}});
  return out + "0\r\n\r\n";
}

// Keeps what it read; reads 100 tokens, and decodes one, in a pause.
class Answers {
 public:
  std::string operator()(const std::string& request) {
    if (request.starts_with("GET /props ")) return http_answer(kProps);
    if (request.starts_with("GET /v1/models ")) return http_answer(kModels);
    if (request.starts_with("GET /slots ")) return http_answer(kIdle);
    const json body = body_of(request);
    const auto prompt = body.at("prompt").get<std::vector<int>>();
    const auto differ = std::mismatch(prompt.begin(), prompt.end(), kept_.begin(), kept_.end());
    const int read = int(prompt.end() - differ.first);
    kept_ = prompt;
    return streamed(read, body.at("n_predict").get<int>(), read / 100);
  }

 private:
  std::vector<int> kept_;
};

Report forecast_of(int depth, int prompt, int output, const std::string& runtime = "llama.cpp") {
  Scenario s = scenario({{"runtime.name", runtime},
                         {"workload.depth", std::to_string(depth)},
                         {"workload.prompt_tokens", std::to_string(prompt)},
                         {"workload.output_tokens", std::to_string(output)}});
  Report r;
  r.placement = resolve_placement(s);
  r.scenario = std::make_shared<const Scenario>(std::move(s));
  return r;
}

// The error of measuring with a server whose answers to /completion are these.
std::string error_of(const LoopbackServer::Answer& completion, Seconds time = Seconds{2}) {
  LoopbackServer at([&](const std::string& request) {
    return request.starts_with("GET") ? Answers()(request) : completion(request);
  });
  const auto server = find_llama_server(at.url());
  REQUIRE(server.ok());
  const auto measured = measure_with(*server, forecast_of(0, 16, 8), {time, 2});
  REQUIRE(measured.ok());
  REQUIRE(measured->decode.error);
  CHECK(measured->prefill.tests.empty());
  return measured->decode.error->text();
}

}  // namespace

TEST_CASE("Addresses of servers are read, or refused with a reason", "[server]") {
  for (const char* text : {"http://127.0.0.1:8080", "127.0.0.1:8080", "http://127.0.0.1:8080/"})
    CHECK(parse_http_address(text)->text() == "http://127.0.0.1:8080");
  CHECK(parse_http_address("localhost")->text() == "http://localhost:80");
  CHECK(parse_http_address("http://[::1]:81/v1/")->text() == "http://[::1]:81/v1");
  for (const char* text : {"", "http://", "https://a", "ftp://a", "a:b", "a:99999", "a:-1", "[::1",
                           "a b:80", "a:80:80", "http://:80", "a\r\nHost: b"})
    CHECK_FALSE(parse_http_address(text).ok());
  for (const char* text : {"localhost", "127.0.0.1:1", "127.1.2.3", "[::1]:8080"})
    CHECK(is_loopback(*parse_http_address(text)));
  for (const char* text : {"10.0.0.1", "example.org", "[::2]"})
    CHECK_FALSE(is_loopback(*parse_http_address(text)));
}

TEST_CASE("A server tells its model, build and context", "[server]") {
  LoopbackServer at((Answers()));
  const auto server = find_llama_server(at.url());
  REQUIRE(server.ok());
  CHECK(server->model_file == "/m.gguf");
  CHECK(server->slot_context == 4096);
  CHECK(server->vocabulary == 128256);
  CHECK(server->weights == Bytes{4913000000});
  REQUIRE(server->build);
  CHECK(server->build->number == 7347);
  CHECK(server->build->commit == "2fbe3b7b");
}

TEST_CASE("Tokens that come are speeds, without the first request", "[server]") {
  LoopbackServer at((Answers()));
  const auto server = find_llama_server(at.url());
  REQUIRE(server.ok());
  const double pause = std::chrono::duration<double>(test::kPauseTime).count();
  for (const int depth : {0, 300}) {
    const auto measured = measure_with(*server, forecast_of(depth, 200, 9), {Seconds{5}, 3});
    REQUIRE(measured.ok());
    REQUIRE_FALSE(measured->prefill.error);
    const BenchTest &prompt = measured->prefill.tests.at(0), &answer = measured->decode.tests.at(0);
    CHECK(prompt.prompt == 200);
    CHECK(prompt.depth == depth);
    CHECK(answer.depth == depth + 200);
    REQUIRE(prompt.tokens_per_s.size() == 3);
    REQUIRE(answer.tokens_per_s.size() == 3);
    // A pause may last longer than it says, never shorter; the best of three by less than tenfold.
    // A token that is read late shortens the time from it on: eight steps have seven whole pauses.
    CHECK(std::ranges::max(prompt.tokens_per_s) <= 200 / (2 * pause));
    CHECK(std::ranges::max(prompt.tokens_per_s) > 200 / (20 * pause));
    CHECK(std::ranges::min(answer.tokens_per_s) <= 8 / (7 * pause));
    CHECK(std::ranges::max(answer.tokens_per_s) > 0.1 / pause);
  }
  CHECK(at.requests() == 2 + 5 + 1 + 5);  // /props, /v1/models; /slots; one depth to fill
}

TEST_CASE("A server that is another machine's, or none, is told", "[server]") {
  CHECK_THAT(find_llama_server("http://192.0.2.1:8080").error().text(), Contains("run there too"));
  std::string closed;
  {
    LoopbackServer at((Answers()));
    closed = at.url();
  }
  const Error none = find_llama_server(closed).error();
  CHECK_THAT(none.message, Contains(closed) && Contains("connecting"));
  CHECK_THAT(none.hint, Contains("llama-server"));
  const auto props = [](const std::string& answer) {
    LoopbackServer at([&](const std::string&) { return answer; });
    return find_llama_server(at.url()).error().text();
  };
  CHECK_THAT(props(http_answer("<html>")), Contains("status 200, <html>"));
  CHECK_THAT(props(http_answer("{}")), Contains("none of llama-server's"));
  CHECK_THAT(props(http_answer(R"({"error": {"message": "Loading model"}})", "503 X")),
             Contains("503, Loading model"));
  CHECK_THAT(props("rubbish\r\n\r\n"), Contains("the answer"));
  CHECK_THAT(props("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"),
             Contains("body limit"));
}

TEST_CASE("Answers that are no measurement are told", "[server]") {
  CHECK_THAT(error_of([](const std::string&) { return http_answer("{}"); }),
             Contains("no timings"));
  CHECK_THAT(error_of([](const std::string&) { return http_answer("data: [1]\n\ndata: rub"); }),
             Contains("no timings"));
  CHECK_THAT(error_of([](const std::string&) { return streamed(15, 8); }),
             Contains("read 15 tokens of a prompt of 16"));
  CHECK_THAT(error_of([](const std::string&) { return streamed(16, 7); }),
             Contains("7 tokens instead of 8"));
  CHECK_THAT(error_of([](const std::string&) {
               return http_answer("data: {\"error\": {\"message\": \"Context is full\"}}\n\n");
             }),
             Contains("Context is full"));
  CHECK_THAT(error_of([](const std::string&) {
               return http_answer(R"({"error": {"message": "out of memory"}})", "500 X");
             }),
             Contains("out of memory"));
}

TEST_CASE("A server that hangs is left after the time limit", "[server]") {
  const auto begun = std::chrono::steady_clock::now();
  CHECK_THAT(error_of([](const std::string&) { return std::string(); }, Seconds{0.5}),
             Contains("in time"));
  CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(20));
}

TEST_CASE("What a server cannot run is refused before it is asked", "[server]") {
  LoopbackServer at((Answers()));
  const auto server = find_llama_server(at.url());
  REQUIRE(server.ok());
  CHECK_THAT(measure_with(*server, forecast_of(4000, 90, 8), {}).error().text(),
             Contains("a slot holds 4096 tokens, the scenario needs 4098"));
  CHECK_THAT(measure_with(*server, forecast_of(0, 16, 8, "rigcast"), {}).error().text(),
             Contains("llama-server runs llama.cpp"));
  CHECK(at.requests() == 2);
}

TEST_CASE("A server of another model, or with other clients, is not timed", "[server]") {
  const auto error = [](const char* models, const char* slots) {
    LoopbackServer at([&](const std::string& request) {
      if (request.starts_with("GET /v1/models")) return http_answer(models);
      if (request.starts_with("GET /slots")) return http_answer(slots);
      return Answers()(request);
    });
    const auto server = find_llama_server(at.url());
    REQUIRE(server.ok());
    const auto measured = measure_with(*server, forecast_of(0, 100, 2), {Seconds{5}, 1});
    return measured ? std::string() : measured.error().text();
  };
  CHECK(error(kModels, kIdle).empty());
  CHECK(error("{}", "{}").empty());                                             // it tells neither
  CHECK(error(R"({"data": [{"meta": {"n_vocab": 128000}}]})", kIdle).empty());  // without padding
  CHECK_THAT(error(R"({"data": [{"meta": {"n_vocab": 32000}}]})", kIdle),
             Contains("another model"));
  CHECK_THAT(error(R"({"data": [{"meta": {"size": 9000000000}}]})", kIdle),
             Contains("another model") && Contains("8.38 GiB"));
  CHECK_THAT(error(kModels, R"([{"is_processing": false}, {"is_processing": true}])"),
             Contains("another client"));
}

TEST_CASE("A model in a folder that the server does not tell is asked for", "[server]") {
  LlamaServer server;
  server.model_file = "m.gguf";
  auto none = TomlDocument::parse("", "test");
  REQUIRE(none.ok());
  const auto error = state_server(server, *none);
  REQUIRE(error);
  CHECK_THAT(error->text(), Contains("m.gguf") && Contains("--model"));
  auto named = TomlDocument::parse("model.name = 'llama-3.1-8b'", "test");
  REQUIRE(named.ok());
  CHECK_FALSE(state_server(server, *named));
}

TEST_CASE("A first event of several tokens does not end the prompt", "[server]") {
  // The first four tokens make one character: two pauses of the prompt, three of them, one event.
  const auto answer = [](const std::string& request) {
    return request.starts_with("GET") ? Answers()(request) : streamed(200, 12, 2 + 3, 4);
  };
  LoopbackServer at(answer);
  const auto server = find_llama_server(at.url());
  REQUIRE(server.ok());
  const auto measured = measure_with(*server, forecast_of(0, 200, 12), {Seconds{5}, 3});
  REQUIRE(measured.ok());
  INFO((measured->prefill.error ? measured->prefill.error->text() : ""));
  REQUIRE_FALSE(measured->prefill.error);
  const double pause = std::chrono::duration<double>(test::kPauseTime).count();
  // Of five pauses before the event three are decode: at least as fast as without them.
  CHECK(std::ranges::max(measured->prefill.tests[0].tokens_per_s) > 200 / (5 * pause));
}

TEST_CASE("A server that drafts tokens is told", "[server]") {
  CHECK_THAT(
      error_of([](const std::string&) {
        return http_answer(
            "data: {\"timings\": {\"prompt_n\": 16, \"predicted_n\": 8, \"draft_n\": 12}}\n\n");
      }),
      Contains("drafts tokens"));
}
