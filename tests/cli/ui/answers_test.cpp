// What the page's server answers is what the command prints, byte by byte.

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/ui/ui_program.hpp"

using namespace rigcast::cli_test;
using nlohmann::json;

namespace {

struct Same {
  std::string path, body;
  std::vector<std::string> words;
};

std::string scenario(const std::string& more) {
  return R"({"scenario": {"rig": {"gpu": ["rtx-3060-12gb"]}, "model": {"name": "llama-3.1-8b"},)"
         R"( "workload": {"context": 8192}})" +
         more + "}";
}

std::vector<std::string> words(const char* verb, const std::vector<std::string>& more) {
  std::vector<std::string> out = {verb,        "--gpu", "rtx-3060-12gb", "--model", "llama-3.1-8b",
                                  "--context", "8192",  "--format",      "json"};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

}  // namespace

TEST_CASE("Answers to questions are what the command prints", "[ui]") {
  const UiProgram ui;
  REQUIRE(ui.address() == "http://127.0.0.1:" + std::to_string(ui.port()) + "/");
  const std::vector<Same> all = {
      {"/api/forecast", scenario(""), words("simulate", {"--no-advice"})},
      {"/api/forecast", scenario(R"(, "positions": [0, 4000], "by_context": true, "advice": true)"),
       words("simulate", {"--positions", "0,4000", "--by-context"})},
      {"/api/forecast", scenario(R"(, "timelines": true)"),
       words("simulate", {"--no-advice", "--timelines"})},
      {"/api/plan", scenario(R"(, "min_tps": 30, "objective": "speed", "max_ttft": "5s")"),
       words("plan", {"--min-tps", "30", "--objective", "speed", "--max-ttft", "5s"})},
      {"/api/compare",
       R"({"scenario": {"model": {"name": "llama-3.1-8b"}, "workload": {"context": 8192}},)"
       R"( "gpus": ["rtx-3060-12gb", "rtx-3090"], "budget": 900, "prices": {"rtx-3090": 700}})",
       {"compare", "--model", "llama-3.1-8b", "--context", "8192", "--gpus",
        "rtx-3060-12gb,rtx-3090", "--budget", "900", "--price", "rtx-3090=700", "--format",
        "json"}},
      {"/api/capacity",
       R"({"scenario": {"rig": {"gpu": ["rtx-4090"]}, "model": {"name": "llama-3.2-1b"},)"
       R"( "load": {"preset": "chat"}}})",
       {"capacity", "--gpu", "rtx-4090", "--model", "llama-3.2-1b", "--load", "chat", "--no-advice",
        "--format", "json"}},
  };
  for (const Same& same : all) {
    INFO(same.path << ' ' << same.body);
    const HttpResponse answer = ui.post(same.path, same.body);
    const Outcome printed = run(same.words);
    INFO(printed.error);
    CHECK(answer.status == 200);
    REQUIRE(!printed.out.empty());
    CHECK((answer.body == printed.out));
  }
  for (const char* list :
       {"rigs", "gpus", "cpus", "ram", "ssds", "models", "quants", "runtimes", "loads", "slos"}) {
    INFO(list);
    const HttpResponse answer = ui.get(std::string("/api/catalogue/") + list);
    CHECK(answer.status == 200);
    CHECK((answer.body == run({"list", list, "--format", "json"}).out));
  }
  CHECK((ui.get("/api/machine").body == run({"show", "this", "--format", "json"}).out));
  const json health = json::parse(ui.get("/api/health").body);
  CHECK(health["busy"] == 0);
  CHECK(health["answered"] == 17);
}

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

}  // namespace

TEST_CASE("A long question that asks for lines is told how far its answer is", "[ui]") {
  const UiProgram ui;
  const std::string lines = "Accept: application/x-ndjson\r\n";
  const auto ask = [&](const std::string& path, const std::string& body) {
    return ui.send(ui.post_text(path, body, "application/json", lines));
  };
  const std::string question =
      R"({"scenario": {"model": {"name": "llama-3.1-8b"}, "workload": {"context": 8192}},)"
      R"( "gpus": ["rtx-3060-12gb", "rtx-3090", "rtx-4090"]})";
  const HttpResponse answer = ask("/api/compare", question);
  CHECK(answer.status == 200);
  CHECK(answer.whole);
  CHECK(contains(answer.head, "Content-Type: application/x-ndjson\r\n"));
  CHECK(contains(answer.head, "frame-ancestors 'none'"));
  std::vector<std::string> all = lines_of(answer.body);
  REQUIRE(all.size() >= 4);
  CHECK((json::parse(all.back()) == json::parse(ui.post("/api/compare", question).body)));
  const auto type_for = [&](const std::string& accept) {
    const std::string head =
        ui.send(ui.post_text("/api/compare", question, "application/json", accept + "\r\n")).head;
    return contains(head, "Content-Type: application/x-ndjson\r\n");
  };
  CHECK(type_for("Accept: application/json;q=0.5 , Application/X-NDJSON; q=0.9"));
  CHECK_FALSE(type_for("Accept: application/x-ndjson;q=0, application/json"));
  CHECK_FALSE(type_for("Accept: */*"));
  all.pop_back();
  double before = 0;
  std::vector<std::string> done;
  for (const std::string& line : all) {
    const json progress = json::parse(line);
    CHECK(progress["schema"] == "rigcast.progress/1");
    CHECK(progress["share"] >= before);
    before = progress["share"];
    if (contains(progress["text"], " tok/s")) done.push_back(progress["text"]);
  }
  CHECK(before == 1.0);
  REQUIRE(done.size() == 3);
  CHECK(contains(done[1], "rtx-3090: "));
  // What is refused before there was progress has its status.
  CHECK(ask("/api/compare", R"({"scenario": {"model": {"name": "no such"}}, "gpus": ["rtx-3090"]})")
            .status == 422);
  CHECK(ask("/api/plan", R"({"scenario": 1})").status == 400);
  // A quick answer has nothing before it.
  CHECK(
      (ask("/api/forecast", kQuickQuestion).body == ui.post("/api/forecast", kQuickQuestion).body));
}

TEST_CASE("A question that gets no answer gets the command's own words", "[ui]") {
  const UiProgram ui;
  const auto error_of = [&](const std::string& body, int status) {
    const HttpResponse answer = ui.post("/api/forecast", body);
    INFO(body << '\n' << answer.body);
    CHECK(answer.status == status);
    const json all = json::parse(answer.body, nullptr, false);
    REQUIRE(all.is_object());
    CHECK(all["schema"] == "rigcast.error/1");
    return all["error"];
  };
  const json unknown = error_of(
      R"({"scenario": {"rig": {"gpu": ["rtx-4900"]}, "model": {"name": "llama-3.1-8b"}}})", 422);
  CHECK(contains(unknown["message"], "no GPU named \"rtx-4900\""));
  CHECK(contains(unknown["hint"], "did you mean rtx-4090"));
  CHECK(unknown["key"] == "rig.gpu");
  error_of("{", 400);
  error_of("[]", 400);
  error_of("{}", 400);
  error_of(R"({"scenario": 1})", 400);
  error_of(R"({"scenario": {"rig": 1}})", 400);
  error_of(R"({"scenario": {"rig": {"gpu": null}}})", 400);
  error_of(R"({"scenario": {"Rig=x --output": {"gpu": 1}}})", 400);
  error_of(R"({"scenario": {}, "output": "x"})", 400);
  error_of(R"({"scenario": {}, "positions": []})", 400);
  error_of(R"({"scenario": {}, "advice": 1})", 400);
  error_of(R"({"scenario": {"rig": {"gpu": "a\u0000b"}, "model": {"name": "llama-3.1-8b"}}})", 422);
  error_of(std::string(17, '[') + std::string(17, ']'), 400);
  error_of(R"({"scenario": {"rig": {"colour": "red"}, "model": {"name": "llama-3.1-8b"}}})", 422);
  // The next question is answered all the same.
  CHECK(ui.post("/api/forecast", kQuickQuestion).status == 200);
}

TEST_CASE("An answer that is no is an answer", "[ui]") {
  const UiProgram ui;
  const HttpResponse answer =
      ui.post("/api/forecast",
              R"({"scenario": {"rig": {"gpu": ["rtx-3060-12gb"], "ram": "2xddr4-2666:4GiB"},)"
              R"( "model": {"name": "llama-3.3-70b", "quant": "Q8_0"}, "kv": {"policy": "vram"},)"
              R"( "placement": {"gpu_layers": 81}}})");
  CHECK(answer.status == 200);
  CHECK(json::parse(answer.body)["fits"] == false);
}
