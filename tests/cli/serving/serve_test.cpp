// `rigcast serve` with weights of a file: its own client, clients from npm, and its end.

#include <fstream>
#include <iostream>

#include "tests/cli/program.hpp"
#include "tests/engine/serve/http/http_client.hpp"
#include "tests/paths.hpp"

using namespace rigcast::cli_test;
using namespace std::chrono_literals;
using rigcast::fixtures::HttpClient;
using rigcast::fixtures::HttpResponse;

namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr double kStopSeconds = 10;  // its leaks are looked for at the end
#else
constexpr double kStopSeconds = 2;
#endif

// A model of two layers, whose vocabulary is of invented words.
std::string small_file(const Folder& folder) {
  const std::string file = folder / "small.gguf";
  REQUIRE(run({"synth", "smollm2-135m", "--quant", "Q8_0", "--layers", "2", "-o", file}).exit == 0);
  return file;
}

std::vector<std::string> serve_words(const std::string& file) {
  return {"serve",      "--weights",  file,        "--port",    "0",
          "--threads",  "2",          "--context", "4096",      "--chat-template",
          "mistral-v1", "--parallel", "4",         "--api-key", "test-key"};
}

// The port that the program has printed; 0: it has not yet.
std::uint16_t port_in(const std::string& out) {
  std::ifstream file(out);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto at = text.find("http://127.0.0.1:");
  if (at == text.npos || text.find("ends it") == text.npos) return 0;
  return std::uint16_t(std::atoi(text.c_str() + at + 17));
}

// Runs the server, does `work` once it listens, and ends it by SIGTERM.
Outcome served(const std::string& file, const std::function<void(std::uint16_t port)>& work) {
  const Folder place;
  const std::string out = place / "out";
  const auto once = [&] {
    const std::uint16_t port = port_in(out);
    if (port != 0) work(port);
    return port != 0;
  };
  Outcome o = run(serve_words(file),
                  {.standard_output = out, .interrupt_once = once, .signals = {SIGTERM}});
  o.out = read(out);
  return o;
}

std::string asked(const std::string& path, const std::string& body) {
  return rigcast::fixtures::post(path, body, "Authorization: Bearer test-key\r\n");
}

}  // namespace

TEST_CASE("A served model answers, and ends within two seconds while it does", "[cli][serve]") {
  const Folder folder;
  std::unique_ptr<HttpClient> stream;
  const Outcome o = served(small_file(folder), [&](std::uint16_t port) {
    HttpClient client(port);
    client.send(asked("/v1/chat/completions",
                      R"({"messages":[{"role":"user","content":"Hi"}],"max_tokens":5})"));
    const HttpResponse r = client.response();
    CHECK(r.status == 200);
    CHECK(contains(r.body, "\"role\":\"assistant\""));
    stream = std::make_unique<HttpClient>(port);
    stream->send(asked("/v1/completions",
                       R"({"prompt":"Hi","max_tokens":4000,"stream":true,"ignore_eos":true})"));
    CHECK(stream->receive());
  });
  INFO(o.out << o.error);
  CHECK(o.exit == 0);
  CHECK(o.seconds_left < kStopSeconds);
  CHECK(contains(o.out, "served 1 requests, 1 cancelled, 0 failed, 0 refused"));
  const HttpResponse rest = stream->response();
  CHECK(contains(rest.body, "\"error\":"));
}

TEST_CASE("Clients that others wrote are served", "[cli][serve][clients]") {
  const Folder folder;
  const std::string log = folder / "clients.txt";
  int status = -1;
  served(small_file(folder), [&](std::uint16_t port) {
    status =
        std::system((rigcast::test::source_path("/scripts/serve-clients.sh http://127.0.0.1:") +
                     std::to_string(port) + " small test-key > " + log + " 2>&1")
                        .c_str());
  });
  const std::string text = read(log);
  INFO(text);
  std::cout << text;
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) return;  // no node, or no network to fetch them from
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(contains(text, "openai: chats, streams, completions, errors and an abort"));
  CHECK(contains(text, "autocannon: 64 requests of 8 clients"));
}

TEST_CASE("Flags of a load of one's own are refused by a server", "[cli][serve]") {
  for (const std::vector<std::string>& flags : {std::vector<std::string>{"--users", "4"},
                                                {"--rate", "2"},
                                                {"--load", "chat"},
                                                {"--ram-cache", "1GiB"},
                                                {"--max-sequences", "4"},
                                                {"--max-sequences", "4", "--kv-disk", "/tmp"},
                                                {"--prompt-tokens", "512"}}) {
    std::vector<std::string> words{"serve", "--weights", "any.gguf"};
    words.insert(words.end(), flags.begin(), flags.end());
    const Outcome o = run(words);
    CHECK(o.exit == 2);
    CHECK(o.error.find("a server does not take") != std::string::npos);
    CHECK(o.error.find(flags.front().substr(2)) != std::string::npos);
  }
}

TEST_CASE("What cannot be served is refused before weights are read", "[cli][serve]") {
  const Folder folder;
  const std::string file = small_file(folder);
  const std::vector<std::string> serve = {"serve", "--weights", file};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = serve;
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  check_refused(with({"--chat-template", "alpaca"}),
                {"no chat template is named \"alpaca\"", "chatml (Qwen"});
  check_refused(with({"--chat-template", "llama3"}),
                {"the vocabulary has no token <|start_header_id|>"});
  check_refused(with({"--host", "0.0.0.0", "--context", "256"}),
                {"others reach 0.0.0.0: an API key is needed there", "--api-key KEY"});
  check_refused(with({"--kv-tokens", "100", "--context", "256"}), {"one request may have 256"});
  const Outcome huge = run(with({"--kv-tokens", "1000000000"}));
  CHECK(huge.exit == 1);
  CHECK(huge.error.find("of memory") != std::string::npos);
  check_refused({"serve"}, {"--weights is required"});
}

TEST_CASE("A chat is answered once, without its prompt", "[cli][run]") {
  const Folder folder;
  const std::string file = small_file(folder);
  const Outcome o =
      run({"run", "--weights", file, "--chat", "--chat-template", "mistral-v1", "--system", "Brief",
           "--prompt", "Hello", "--output-tokens", "4", "--context", "256"});
  INFO(o.out << o.error);
  CHECK(o.exit == 0);
  CHECK_FALSE(contains(o.out, "Hello"));
  CHECK(contains(o.out, "-token prompt"));
  check_refused({"run", "--weights", file, "--chat", "--prompt", "Hello", "--context", "256"},
                {"the file has no chat template", "--chat-template NAME, one of: chatml"});
}
