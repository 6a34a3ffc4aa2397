// What the page's server refuses: files, other pages, and more than its share.

#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/cli/ui/ui_program.hpp"
#include "tests/paths.hpp"

using namespace rigcast::cli_test;
using namespace std::chrono_literals;
using rigcast::test::Folder;

namespace {

std::string with_model(const std::string& model) {
  return R"({"scenario": {"rig": {"gpu": ["rtx-3060-12gb"]}, "model": )" + model + "}}";
}
std::string with_rig(const std::string& rig) {
  return R"({"scenario": {"rig": )" + rig + R"(, "model": {"name": "llama-3.2-1b"}}})";
}

}  // namespace

TEST_CASE("No file is read because a request names it", "[ui]") {
  const UiProgram ui;
  const Folder place;
  // Files that the command would read, each of which makes a forecast that works.
  const fs::path source(rigcast::test::source_dir());
  const std::string gpu = place / "gpu.toml", rig = place / "rig.toml", spec = place / "m.toml";
  const std::string runtime = place / "r.toml", load = place / "load.toml";
  fs::copy_file(source / "hwprofiles/gpus/rtx-3060-12gb.toml", gpu);
  fs::copy_file(source / "hwprofiles/rigs/budget-rtx-3060.toml", rig);
  fs::copy_file(source / "models/llama-3.2-1b.toml", spec);
  fs::copy_file(source / "runtimes/llama.cpp.toml", runtime);
  fs::copy_file(source / "loads/chat.toml", load);
  const auto quoted = [](const std::string& text) { return nlohmann::json(text).dump(); };
  const std::string up = "../../../../../../../../../../..";
  const std::vector<std::string> bodies = {
      with_rig(R"({"gpu": [)" + quoted(gpu) + "]}"),
      with_rig(R"({"gpu": [)" + quoted(up + gpu) + "]}"),
      with_rig(R"({"name": )" + quoted(rig) + "}"),
      with_rig(R"({"name": )" + quoted("file:" + rig) + "}"),
      with_rig(R"({"gpu": ["rtx-3060-12gb"], "cpu": )" + quoted(gpu) + "}"),
      with_rig(R"({"gpu": ["rtx-3060-12gb"], "ssd": )" + quoted(gpu) + "}"),
      with_rig(R"({"gpu": ["rtx-3060-12gb"], "ram": )" + quoted(gpu) + "}"),
      with_model(R"({"name": )" + quoted(spec) + "}"),
      with_model(R"({"name": )" + quoted(up + spec) + "}"),
      with_model(R"({"name": )" + quoted(place / "llama-3.2-1b.Q4_K_M.gguf") + "}"),
      with_model(R"({"name": "llama-3.2-1b-Q4_K_M.gguf"})"),
      with_model(R"({"name": )" + quoted(place / "config.json") + "}"),
      with_model(R"({"file": )" + quoted(spec) + "}"),
      with_model(R"({"name": "llama-3.2-1b", "mmproj": )" + quoted(spec) + "}"),
      R"({"scenario": {"rig": {"gpu": ["rtx-3060-12gb"]}, "model": {"name": "llama-3.2-1b"},)"
      R"( "draft": {"file": "/etc/passwd"}}})",
      R"({"scenario": {"rig": {"gpu": ["rtx-3060-12gb"]}, "model": {"name": "llama-3.2-1b"},)"
      R"( "runtime": {"name": )" +
          quoted(runtime) + "}}}",
      R"({"scenario": {"rig": {"gpu": ["rtx-3060-12gb"]}, "model": {"name": "llama-3.2-1b"},)"
      R"( "load": {"preset": )" +
          quoted(load) + "}}}",
      R"({"scenario": {"rig": {"gpu": ["rtx-3060-12gb"]}, "model": {"name": "llama-3.2-1b"},)"
      R"( "load": {"trace": "/etc/passwd"}}})",
      R"({"scenario": {"rig": {"gpu": ["2xrtx-3090"], "interconnect": ")" + up +
          R"(/etc/x"}, "model": {"name": "llama-3.2-1b"}, "placement": {"split_mode": "tensor"}}})",
  };
  for (const std::string& body : bodies) {
    const HttpResponse answer = ui.post("/api/forecast", body);
    INFO(body << '\n' << answer.body);
    CHECK(answer.status == 422);
    CHECK(!contains(answer.body, "root:"));
  }
  const HttpResponse rigs =
      ui.post("/api/compare", R"({"scenario": {"model": {"name": "llama-3.2-1b"}}, "rigs": [)" +
                                  quoted(rig) + "]}");
  CHECK(rigs.status == 422);
  for (const char* path :
       {"/../../etc/passwd", "/..%2f..%2fetc/passwd", "/app.js/../../x", "//etc/passwd",
        "/etc/passwd", "/style.css%00.js", "/api/catalogue/../gpus", "/api/catalogue/prices",
        "/index.html", "/api/", "http://127.0.0.1/", "*"}) {
    INFO(path);
    CHECK(ui.get(path).status == 404);
  }
}

TEST_CASE("Other pages get nothing", "[ui]") {
  const UiProgram ui;
  const std::string port = std::to_string(ui.port());
  const auto asks = [&](const std::string& lines) {
    return ui.send("GET /api/health HTTP/1.1\r\n" + lines + "\r\n").status;
  };
  const std::string own = "Host: 127.0.0.1:" + port + "\r\n";
  CHECK(asks(own) == 200);
  CHECK(asks("Host: localhost:" + port + "\r\n") == 200);
  for (const std::string& host :
       {std::string("127.0.0.1"), "127.0.0.1.evil.com:" + port, "evil.com:" + port,
        "127.0.0.1:" + port + ".evil.com", std::string("localhost"), std::string("127.0.0.1:1"),
        std::string()}) {
    INFO(host);
    CHECK(asks("Host: " + host + "\r\n") == 421);
  }
  CHECK(asks("") == 421);
  CHECK(asks(own + own) == 421);
  CHECK(asks(own + "Origin: http://127.0.0.1:" + port + "\r\n") == 200);
  for (const std::string& origin :
       {std::string("http://evil.com"), std::string("null"), "https://127.0.0.1:" + port,
        "http://localhost:" + port, "http://127.0.0.1:" + port + ".evil.com"}) {
    INFO(origin);
    CHECK(asks(own + "Origin: " + origin + "\r\n") == 403);
  }
  CHECK(asks(own + "Sec-Fetch-Site: same-origin\r\n") == 200);
  CHECK(asks(own + "Sec-Fetch-Site: none\r\n") == 200);
  CHECK(asks(own + "Sec-Fetch-Site: cross-site\r\n") == 403);
  CHECK(asks(own + "Sec-Fetch-Site: same-site\r\n") == 403);
  for (const char* type : {"text/plain", "application/x-www-form-urlencoded", "",
                           "multipart/form-data", "application/jsonx"})
    CHECK(ui.send(ui.post_text("/api/forecast", kQuickQuestion, type)).status == 415);
  CHECK(ui.send(ui.post_text("/api/health", "{}")).status == 405);
  CHECK(ui.get("/api/forecast").status == 405);
  // Nobody is told that another page may read what is answered.
  for (const char* path : {"/", "/app.js", "/style.css", "/api/health", "/nothing"}) {
    const HttpResponse answer = ui.get(path);
    INFO(answer.head);
    CHECK(!contains(answer.head, "Access-Control"));
    CHECK(contains(answer.head,
                   "\r\nContent-Security-Policy: default-src 'none'; script-src "
                   "'self'; style-src 'self';"));
    CHECK(contains(answer.head, "frame-ancestors 'none'\r\n"));
    CHECK(contains(answer.head, "\r\nX-Content-Type-Options: nosniff\r\n"));
    CHECK(contains(answer.head, "\r\nCross-Origin-Resource-Policy: same-origin\r\n"));
  }
}

TEST_CASE("The first question stands in the address", "[ui]") {
  const UiProgram ui({"--model", "Llama 3.1 8B&x=1", "--gpu", "rtx-3090", "-c", "4096"});
  CHECK(contains(ui.address(), "/#forecast?"));
  CHECK(contains(ui.address(), "model.name=Llama%203.1%208B%26x%3D1"));
  CHECK(contains(ui.address(), "rig.gpu=rtx-3090"));
  CHECK(contains(ui.address(), "workload.context=4096"));
}

TEST_CASE("The page's files have their types, and are asked for once", "[ui]") {
  const UiProgram ui;
  const HttpResponse page = ui.get("/");
  CHECK(contains(page.head, "Content-Type: text/html; charset=utf-8\r\n"));
  CHECK(contains(page.head, "Cache-Control: no-cache\r\n"));
  std::size_t bytes = page.body.size();
  for (const char* file : {"/app.js?v=", "/style.css?v="}) {
    const auto at = page.body.find(file);
    REQUIRE(at != page.body.npos);
    const std::string target = page.body.substr(at, page.body.find('"', at) - at);
    const HttpResponse answer = ui.get(target);
    CHECK(answer.status == 200);
    CHECK(contains(answer.head, "immutable\r\n"));
    bytes += answer.body.size();
    const std::string tag = target.substr(target.find('=') + 1);
    CHECK(contains(answer.head, "ETag: \"" + tag + "\"\r\n"));
    CHECK(ui.get(target, "If-None-Match: \"" + tag + "\"\r\n").status == 304);
    CHECK(contains(ui.get(target.substr(0, target.find('?'))).head, "no-cache\r\n"));
  }
  CHECK(bytes <= 160'000);
}

TEST_CASE("Requests that are too large, and clients that are too slow or too many", "[ui]") {
  const UiProgram ui;
  CHECK(ui.get("/", "X: " + std::string(9000, 'a') + "\r\n").status == 431);
  CHECK(ui.post("/api/forecast", std::string(17'000, ' ')).status == 413);
  // Without room for more, the next one is told at once; with room again, it is served.
  std::vector<std::unique_ptr<HttpClient>> slow;
  for (int i = 0; i < 64; ++i) {
    slow.push_back(std::make_unique<HttpClient>(ui.port()));
    slow.back()->send(i % 2 == 0 ? "GET / HT" : ui.post_text("/api/forecast", "{}").substr(0, 90));
  }
  CHECK(ui.get("/api/health").status == 503);
  const auto begin = std::chrono::steady_clock::now();
  for (auto& client : slow) {
    client->read_all(10s);
    CHECK(client->ended());
  }
  CHECK(UiProgram::seconds_since(begin) < 7);
  const auto then = std::chrono::steady_clock::now();
  CHECK(ui.get("/api/health").status == 200);
  CHECK(UiProgram::seconds_since(then) < 0.5);
}

TEST_CASE("More questions than wait get 503, and none is lost", "[ui]") {
  const UiProgram ui({"--jobs", "2"});
  constexpr int kClients = 100;
  std::vector<int> status(kClients);
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i)
    threads.emplace_back([&ui, &status, i] {
      for (int n = 0; n < 3; ++n)
        status[std::size_t(i)] = ui.post("/api/forecast", kQuickQuestion).status;
    });
  for (std::thread& thread : threads) thread.join();
  for (const int one : status) CHECK((one == 200 || one == 503));
  CHECK(ui.post("/api/forecast", kQuickQuestion).status == 200);
}

TEST_CASE("A question whose client leaves is worked on no more", "[ui]") {
  const UiProgram ui({"--jobs", "2"});
  const std::string slow =
      R"({"scenario": {"rig": {"name": "dual-rtx-3090"}, "model": {"name": "llama-3.3-70b"}},)"
      R"( "budget": 5000})";
  const auto busy = [&] {
    return nlohmann::json::parse(ui.get("/api/health").body)["busy"].get<int>();
  };
  const auto soon = [](const auto& holds) {
    const auto begin = std::chrono::steady_clock::now();
    while (!holds() && UiProgram::seconds_since(begin) < 5) std::this_thread::sleep_for(5ms);
    return holds();
  };
  {
    HttpClient client(ui.port());
    client.send(ui.post_text("/api/compare", slow));
    REQUIRE(soon([&] { return busy() == 1; }));
    // A long question leaves a worker for others.
    CHECK(ui.post("/api/forecast", kQuickQuestion).status == 200);
  }
  CHECK(soon([&] { return busy() == 0; }));
}

TEST_CASE("Control-C ends the server and all of its processes", "[ui]") {
  UiProgram ui;
  HttpClient idle(ui.port());
  idle.send(ui.get_text("/api/health"));
  CHECK(idle.response().status == 200);
  HttpClient waits(ui.port());
  waits.send(ui.post_text(
      "/api/compare",
      R"({"scenario": {"rig": {"name": "dual-rtx-3090"}, "model": {"name": "llama-3.3-70b"}}})"));
  std::this_thread::sleep_for(100ms);
  const pid_t group = ui.process();
  CHECK(ui.interrupt() < 2);
  CHECK(WIFEXITED(ui.status()));
  CHECK(WEXITSTATUS(ui.status()) == 0);
  const auto begin = std::chrono::steady_clock::now();
  while (::kill(-group, 0) == 0 && UiProgram::seconds_since(begin) < 2)
    std::this_thread::sleep_for(5ms);
  CHECK(::kill(-group, 0) != 0);
  CHECK(waits.response().status != 200);
}

TEST_CASE("Any bytes end in a response or a closed connection, and the page is served",
          "[ui][fuzz]") {
  const char* text = std::getenv("RIGCAST_UI_FUZZ");
  const char* seed = std::getenv("RIGCAST_UI_FUZZ_SEED");
  const std::uint64_t count = text ? std::strtoull(text, nullptr, 10) : 1000;
  std::mt19937_64 random(seed ? std::strtoull(seed, nullptr, 10) : 1);
  const UiProgram ui;
  const auto below = [&](std::size_t n) { return std::size_t(random() % n); };
  const std::vector<std::string> seeds = {
      ui.post_text("/api/forecast", kQuickQuestion),
      ui.post_text("/api/forecast", R"({"scenario": {"rig": {"gpu": ["rtx-3090"], "pcie": "4x16"},)"
                                    R"( "model": {"name": "qwen3-8b", "quant": "Q8_0"},)"
                                    R"( "kv": {"type_k": "q8_0"}}, "positions": [0, 100]})"),
      ui.get_text("/"),
      ui.get_text("/api/health", "Origin: http://" + ui.host() + "\r\n"),
      ui.get_text("/app.js?v=1", "If-None-Match: \"x\"\r\nConnection: close\r\n"),
      "GET /api/health HTTP/1.0\r\nHost: " + ui.host() + "\r\n\r\n",
  };
  const std::vector<std::string> tokens = {"\r\n",
                                           "\r\n\r\n",
                                           ":",
                                           "\"",
                                           "{",
                                           "[[[[[[[[[[[[[[[[[[[[",
                                           "null",
                                           "1e999",
                                           "-0",
                                           "\\ud800",
                                           "\xff\xfe",
                                           "Content-Length: 99999999999999999999\r\n",
                                           "Transfer-Encoding: chunked\r\n",
                                           "..",
                                           "/",
                                           "--output=x",
                                           "\\u0000",
                                           ",",
                                           "true",
                                           std::string(1, '\0'),
                                           std::string(300, 'a')};
  std::uint64_t answered = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::string request = seeds[below(seeds.size())];
    for (std::size_t n = 1 + below(4); n > 0; --n) {
      const std::size_t at = below(request.size() + 1);
      switch (below(4)) {
        case 0: request.insert(at, tokens[below(tokens.size())]); break;
        case 1: request.erase(at, 1 + below(20)); break;
        case 2: request.resize(at); break;
        default:
          if (at < request.size()) request[at] = char(request[at] ^ char(1 << below(8)));
      }
      if (request.empty()) request = " ";
    }
    HttpClient client(ui.port());
    if (!client.connected()) FAIL("no connection for request " << i);
    client.send(request);
    if (below(2) == 0) client.receive(5ms);
    client.end_of_sending();
    client.read_all(20s);
    if (!client.ended()) FAIL("request " << i << " was left open: " << request);
    answered += client.unread().rfind("HTTP/1.1 ", 0) == 0 ? 1u : 0u;
    if (contains(client.unread(), "HTTP/1.1 500")) FAIL("request " << i << ": " << request);
  }
  CHECK(answered > count / 4);
  CHECK(ui.get("/").status == 200);
  CHECK(ui.post("/api/forecast", kQuickQuestion).status == 200);
}
