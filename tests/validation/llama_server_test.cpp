// A llama-server that runs already: what it tells, what its timings come to, and servers that
// misbehave. scripts/llama-server.sh runs the real one.

#include "validation/runs/llama_cpp/server.hpp"

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

json body_of(const std::string& request) {
  return json::parse(request.substr(request.find("\r\n\r\n") + 4));
}

std::string timings(int cached, int prompt, double prompt_ms, int output, double output_ms) {
  return json{{"content", ""},
              {"timings",
               {{"cache_n", cached},
                {"prompt_n", prompt},
                {"prompt_ms", prompt_ms},
                {"predicted_n", output},
                {"predicted_ms", output_ms}}}}
      .dump();
}

// Keeps what it read, reads 1,000 tokens a second and decodes 50.
class Answers {
 public:
  std::string operator()(const std::string& request) {
    if (request.starts_with("GET /props ")) return http_answer(kProps);
    const json body = body_of(request);
    const auto prompt = body.at("prompt").get<std::vector<int>>();
    const auto differ = std::mismatch(prompt.begin(), prompt.end(), kept_.begin(), kept_.end());
    const int cached = int(differ.first - prompt.begin());
    kept_ = prompt;
    const int read = int(prompt.size()) - cached, output = body.at("n_predict").get<int>();
    return http_answer(timings(cached, read, read, output, 20.0 * (output - 1)));
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
    return request.starts_with("GET") ? http_answer(kProps) : completion(request);
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
  REQUIRE(server->build);
  CHECK(server->build->number == 7347);
  CHECK(server->build->commit == "2fbe3b7b");
}

TEST_CASE("A server's timings are speeds, without the first request", "[server]") {
  LoopbackServer at((Answers()));
  const auto server = find_llama_server(at.url());
  REQUIRE(server.ok());
  for (const int depth : {0, 300}) {
    const auto measured = measure_with(*server, forecast_of(depth, 64, 9), {Seconds{5}, 3});
    REQUIRE(measured.ok());
    REQUIRE_FALSE(measured->prefill.error);
    const BenchTest &prompt = measured->prefill.tests.at(0), &answer = measured->decode.tests.at(0);
    CHECK(prompt.prompt == 64);
    CHECK(prompt.depth == depth);
    CHECK(prompt.tokens_per_s == std::vector<double>(3, 1000));
    CHECK(answer.depth == depth + 64);
    // Eight steps follow the first token, which comes with the prompt.
    CHECK(answer.tokens_per_s == std::vector<double>(3, 50));
  }
  CHECK(at.requests() == 1 + 4 + 1 + 4);  // /props; one depth to fill
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
  CHECK_THAT(error_of([](const std::string&) { return http_answer(timings(0, 15, 1, 8, 1)); }),
             Contains("read 15 tokens of a prompt of 16"));
  CHECK_THAT(error_of([](const std::string&) { return http_answer(timings(0, 16, 1, 7, 1)); }),
             Contains("7 tokens instead of 8"));
  CHECK_THAT(error_of([](const std::string&) { return http_answer(timings(0, 16, 0, 8, 0)); }),
             Contains("too few tokens"));
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
  CHECK(at.requests() == 1);
}
