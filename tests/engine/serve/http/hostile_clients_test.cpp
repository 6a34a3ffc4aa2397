// Clients that send what they should not, or too slowly.

#include <chrono>
#include <cstdlib>
#include <random>

#include "tests/engine/serve/http/served_fixture.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::fixtures;
using namespace std::chrono_literals;

namespace {

const std::string kHonest = post("/v1/completions", R"({"prompt":"abc","max_tokens":3})");

bool honest_is_served(const EchoServer& server) {
  const HttpResponse r = server.ask(kHonest);
  return r.status == 200 && r.body.find("\"abc\"") != r.body.npos;
}

// Well-formed requests, from which the others are made.
const std::vector<std::string>& seeds() {
  static const std::vector<std::string> all = {
      kHonest,
      post("/v1/chat/completions",
           R"({"model":"echo","messages":[{"role":"system","content":"S"},{"role":"user",)"
           R"("content":[{"type":"text","text":"\u20ac<|im_end|>"}]}],"max_tokens":8,"seed":7,)"
           R"("temperature":0.5,"top_p":0.9,"stop":["a","bc"],"stream":true,)"
           R"("stream_options":{"include_usage":true}})"),
      post("/v1/completions", R"({"prompt":[1,2,3],"max_tokens":2,"stop_token_ids":[5]})"),
      get("/metrics"),
      get("/v1/models?x=1", "Connection: close\r\n"),
      "POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: "
      "chunked\r\n\r\n10\r\n{\"prompt\":\"abcd\"\r\n1\r\n}\r\n0\r\n\r\n",
      post("/v1/completions", R"({"prompt":"a"})", "Expect: 100-continue\r\n"),
      "GET /health HTTP/1.0\r\n\r\n",
  };
  return all;
}

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t n) { return std::size_t(random_() % n); }

  std::string next() {
    std::string text = seeds()[below(seeds().size())];
    if (below(8) == 0) text += seeds()[below(seeds().size())];
    for (std::size_t n = below(5); n > 0; --n) change(text);
    return text;
  }

 private:
  void change(std::string& text) {
    static const std::vector<std::string> kTokens = {"\r\n",
                                                     "\r\n\r\n",
                                                     ":",
                                                     "Content-Length: 99999999999999999999\r\n",
                                                     "\"",
                                                     "{",
                                                     "[[[[[[",
                                                     "Content-Length: -1\r\n",
                                                     "null",
                                                     "1e999",
                                                     "-0",
                                                     "Transfer-Encoding: chunked\r\n",
                                                     "\\ud800",
                                                     "\xff\xfe",
                                                     "9223372036854775808",
                                                     "Connection: keep-alive\r\n",
                                                     "ffffffffffffffff\r\n",
                                                     "\"n\":2,",
                                                     "\"stream\":true,",
                                                     std::string(1, '\0'),
                                                     "\"max_tokens\":99999,",
                                                     std::string(300, '[')};
    const std::size_t at = below(text.size() + 1);
    switch (below(5)) {
      case 0: text.insert(at, kTokens[below(kTokens.size())]); break;
      case 1: text.erase(at, 1 + below(20)); break;
      case 2: text.insert(at, 1 + below(3), char(below(256))); break;
      case 3: text.resize(at); break;
      default:
        if (at < text.size()) text[at] = char(text[at] ^ char(1 << below(8)));
    }
    if (text.empty()) text = " ";
  }

  std::mt19937_64 random_;
};

std::uint64_t number_from(const char* variable, std::uint64_t usual) {
  const char* text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : usual;
}

}  // namespace

TEST_CASE("Any bytes end in a response or a closed connection, and others are served",
          "[serve][fuzz]") {
  const std::uint64_t count = number_from("RIGCAST_HTTP_FUZZ", 3000);
  const std::uint64_t seed = number_from("RIGCAST_HTTP_FUZZ_SEED", 1);
  CAPTURE(seed);
  EchoServer server({.waiting = 100});
  Mutator mutator(seed);
  std::uint64_t answered = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    HttpClient client(server.port());
    if (!client.connected()) FAIL("no connection for request " << i);
    client.send(mutator.next());
    // Half of the clients wait a little for an answer, the others leave at once.
    if (mutator.below(2) == 0) client.receive(2ms);
    client.end_of_sending();
    client.read_all(10s);
    if (!client.ended()) FAIL("request " << i << " was left open");
    answered += client.unread().starts_with("HTTP/1.1 ") ? 1u : 0u;
    if (i % 1000 == 999 && !honest_is_served(server)) FAIL("after request " << i);
  }
  CHECK(answered > count / 4);
  CHECK(honest_is_served(server));
  CHECK(soon([&] { return server.completions.state().running == 0; }));
  CHECK(soon([&] {
    return server.ask(get("/metrics")).body.find("rigcast_http_connections 1\n") !=
           std::string::npos;
  }));
}

TEST_CASE("64 slow clients do not keep an honest one waiting, and are dropped", "[serve]") {
  constexpr std::size_t kSlow = 64;
  constexpr auto kTime = 4000ms;  // that the server gives a slow client
  HttpOptions options;
  options.request_time = kTime;
  options.write_time = kTime;
  options.idle_time = kTime;  // of streams that went into the sockets whole
  options.max_unsent_bytes = 64 << 10;
  const EchoServer server({.running = 64}, options);
  std::vector<std::unique_ptr<HttpClient>> slow;
  const std::string stream =
      post("/v1/completions", R"({"prompt":"a","max_tokens":90000,"stream":true})");
  for (std::size_t i = 0; i < kSlow; ++i) {
    slow.push_back(std::make_unique<HttpClient>(server.port(), 4096));
    REQUIRE(slow.back()->connected());
    if (i % 4 == 3) slow.back()->send(stream);  // and reads nothing
  }
  // The others send a byte at a time; a quarter of them a header, a quarter a body.
  const std::string parts[] = {"G", kHonest.substr(0, 40), kHonest.substr(0, kHonest.size() - 20)};
  for (std::size_t i = 0; i < kSlow; ++i)
    if (i % 4 != 3) slow[i]->send(parts[i % 4]);
  const auto begin = std::chrono::steady_clock::now();
  double longest_s = 0;
  for (int round = 0; std::chrono::steady_clock::now() - begin < kTime + 1s; ++round) {
    for (std::size_t i = 0; i < kSlow; ++i)
      if (i % 4 != 3) slow[i]->send("x");
    const auto asked = std::chrono::steady_clock::now();
    REQUIRE(honest_is_served(server));
    longest_s = std::max(
        longest_s, std::chrono::duration<double>(std::chrono::steady_clock::now() - asked).count());
    std::this_thread::sleep_for(20ms);
  }
  CAPTURE(longest_s);
  // It waits for none of them, be the machine as busy as it may.
  CHECK(longest_s < 0.5 * std::chrono::duration<double>(kTime).count());
  // None of the slow ones is connected any more, but for the one that asks.
  CHECK(soon([&] {
    return server.ask(get("/metrics")).body.find("rigcast_http_connections 1\n") !=
           std::string::npos;
  }));
  CHECK(soon([&] { return server.completions.state().running == 0; }));
}

TEST_CASE("More connections than the server takes are told so", "[serve]") {
  HttpOptions options;
  options.max_connections = 2;
  const EchoServer server({}, options);
  {
    HttpClient first(server.port()), second(server.port());
    first.send(get("/health"));
    CHECK(first.response().status == 200);
    second.send(get("/health"));
    CHECK(second.response().status == 200);
    CHECK(HttpClient(server.port()).response().status == 503);
  }
  CHECK(soon([&] { return honest_is_served(server); }));
}
