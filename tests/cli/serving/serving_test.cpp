// Loads and capacities as users ask for them.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/cli/program.hpp"

using namespace rigcast::cli_test;
using Json = nlohmann::json;

namespace {

std::vector<std::string> served(const std::string& verb, const std::vector<std::string>& more) {
  std::vector<std::string> words = {verb,           "--gpu",   "rtx-3060-12gb", "--model",
                                    "llama-3.2-1b", "--quant", "Q8_0"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("simulate writes the timeline of a load", "[cli][serving][trace]") {
  const rigcast::test::Folder folder;
  const std::string file = folder / "load.json";
  const Outcome out = run(served("simulate", {"--users", "3", "--load", "chat", "--slots", "2",
                                              "--trace", file, "--format", "json"}));
  INFO(out.error);
  REQUIRE(out.exit == 0);
  const Json serving = Json::parse(out.out)["serving"];
  const double duration = serving["duration_s"];
  double copied = 0;
  std::set<std::string> tracks;
  const Json trace = Json::parse(std::ifstream(file));
  for (const Json& e : trace["traceEvents"]) {
    if (e["name"] == "thread_name") tracks.insert(e["args"]["name"]);
    if (e["ph"] == "X" && e["name"] == "copies to RAM") copied += double(e["dur"]) / 1e6;
  }
  CHECK(tracks == std::set<std::string>{"copies from RAM", "copies to RAM", "slot 0", "slot 1"});
  // The report's shares are printed as they are; of the trace each end is rounded to nanoseconds.
  const double share = serving["kv"]["ram"]["to_ram_share"];
  CHECK(share > 0);
  CHECK(copied / duration == Approx(share).epsilon(1e-6));
}

TEST_CASE("The timeline of a load on several engines says whose it is", "[cli][serving][trace]") {
  const rigcast::test::Folder folder;
  const std::string file = folder / "engines.json";
  const Outcome out = run({"simulate", "--gpu", "2xrtx-4090", "--model", "llama-3.1-8b",
                           "--runtime", "vllm", "--context", "4096", "--data-parallel", "2",
                           "--users", "2", "--load", "chat", "--trace", file});
  INFO(out.error);
  REQUIRE(out.exit == 0);
  const Json trace = Json::parse(std::ifstream(file));
  const std::string title = trace["traceEvents"][0]["args"]["name"];
  CHECK(title.ends_with(", one of 2 engines with its share of the load"));
}

TEST_CASE("simulate with users tells what each of them sees", "[cli][serving]") {
  const std::vector<std::string> load = {"--users", "3", "--load", "chat"};
  const Outcome text = run(served("simulate", load));
  INFO(text.out << text.error);
  CHECK(text.exit == 0);
  for (const char* word : {"first token", "per token", "within SLO", "served", "KV cache", "chat"})
    CHECK(contains(text.out, word));
  std::vector<std::string> json = load;
  json.insert(json.end(), {"--format", "json"});
  const Json report = Json::parse(run(served("simulate", json)).out);
  const Json& serving = report["serving"];
  CHECK(serving["requests"] == 1000);
  CHECK(serving["ttft_s"]["p50"] > 0);
  CHECK(serving["ttft_s"]["p99"] >= serving["ttft_s"]["p50"]);
  CHECK(serving["interval"]["slowest"]["tpot_s"]["p50"] > serving["tpot_s"]["p50"]);
  CHECK(serving["state"] == "stable");
  // The same command gives the same bytes.
  CHECK(run(served("simulate", json)).out == run(served("simulate", json)).out);
}

TEST_CASE("A server that is asked for too much says so instead of a time", "[cli][serving]") {
  const Outcome o = run(served("simulate", {"--rate", "50", "--load", "chat"}));
  INFO(o.out << o.error);
  CHECK(contains(o.out, "overloaded"));
  CHECK_FALSE(contains(o.out, "  answer"));
}

TEST_CASE("capacity finds how many users there may be", "[cli][serving]") {
  const Outcome o = run(served("capacity", {"--load", "chat", "--no-advice", "--format", "json"}));
  INFO(o.error);
  REQUIRE(o.exit == 0);
  const Json found = Json::parse(o.out);
  CHECK(found["schema"] == "rigcast.capacity/1");
  const double users = found["users"];
  CHECK(users >= 1);
  CHECK(found["rate"].is_null());
  CHECK(found["interval"][0] <= users);
  CHECK(found["interval"][1] >= users);
  CHECK(contains(found["command"].get<std::string>(), "-np 4"));
  // One more breaks what is said, as `simulate` shows; so many do not.
  const auto within = [&](double count) {
    const Outcome one = run(served(
        "simulate", {"--load", "chat", "--users", std::to_string(int(count)), "--format", "json"}));
    const Json report = Json::parse(one.out);
    return report["serving"]["ttft_s"]["p95"].get<double>() <= 2.0 &&
           report["serving"]["tpot_s"]["p95"].get<double>() <= 0.08;
  };
  if (users <= 100) CHECK(within(users));
  if (users < 100) CHECK_FALSE(within(users + 1));
  CHECK(found["limited_at"] == users + 1);
}

TEST_CASE("capacity of several machines is a row for each", "[cli][serving]") {
  const std::vector<std::string> words = {"capacity", "--model", "llama-3.2-1b",
                                          "--quant",  "Q8_0",    "--load",
                                          "chat",     "--gpus",  "rtx-3060-12gb,rtx-4090"};
  const Outcome text = run(words);
  INFO(text.out << text.error);
  CHECK(text.exit == 0);
  for (const char* word : {"serves", "limit", "USD each", "rtx-4090", "TTFT p95"})
    CHECK(contains(text.out, word));
  std::vector<std::string> as_json = words;
  as_json.insert(as_json.end(), {"--format", "json"});
  const Json all = Json::parse(run(as_json).out);
  CHECK(all["schema"] == "rigcast.capacities/1");
  REQUIRE(all["rigs"].size() == 2);
  // The same as of one machine alone.
  const Json alone = Json::parse(
      run(served("capacity", {"--load", "chat", "--no-advice", "--format", "json"})).out);
  for (const Json& rig : all["rigs"]) {
    CHECK(rig["usd_each"].get<double>() ==
          Approx(rig["usd_of_machine"].get<double>() / rig["way"]["serves"].get<double>()));
    if (rig["rig"] != "rtx-3060-12gb") continue;
    CHECK(rig["way"]["serves"] == alone["users"]);
    CHECK(rig["way"]["interval"] == alone["interval"]);
  }
}

TEST_CASE("A plan for users says how many machines serve them", "[cli][serving]") {
  const std::vector<std::string> users = {"plan",    "--gpu",        "2xrtx-3060-12gb",
                                          "--model", "llama-3.2-1b", "--load",
                                          "chat",    "--users",      "300"};
  std::vector<std::string> words = users;
  words.insert(words.end(), {"--quant", "Q8_0", "--slots", "32", "--ubatch", "512", "--batch",
                             "2048", "--format", "json"});
  const Outcome o = run(words);
  INFO(o.error);
  REQUIRE(o.exit == 0);
  const Json plan = Json::parse(o.out);
  CHECK(plan["schema"] == "rigcast.load_plan/1");
  CHECK(plan["users"] == 300);
  std::set<std::string> uses;
  double before = 0;
  for (const Json& way : plan["choices"]) {
    uses.insert(way["gpus"]);
    const double machines = way["fleet"]["machines"], serves = way["serves"];
    CHECK(machines >= before);  // the fewest first
    CHECK(machines >= std::ceil(300 / serves));
    CHECK(way["fleet"]["meets_slo"] == true);
    CHECK(way["fleet"]["share_of_server"] ==
          std::ceil(300 / (machines * way["servers"].get<double>())));
    before = machines;
  }
  CHECK(uses == std::set<std::string>{"copies", "together"});
  CHECK(contains(plan["choices"][0]["command"].get<std::string>(), "llama-server"));
}

TEST_CASE("A comparison for users puts the cheapest first that serves them", "[cli][serving]") {
  const std::vector<std::string> words = {"compare",
                                          "--model",
                                          "llama-3.2-1b",
                                          "--quant",
                                          "Q8_0",
                                          "--load",
                                          "chat",
                                          "--users",
                                          "150",
                                          "--gpus",
                                          "rtx-4090,rtx-3060-12gb",
                                          "--slots",
                                          "64",
                                          "--ubatch",
                                          "512",
                                          "--batch",
                                          "2048",
                                          "--format",
                                          "json"};
  const Outcome o = run(words);
  INFO(o.error);
  REQUIRE(o.exit == 0);
  const Json all = Json::parse(o.out);
  CHECK(all["schema"] == "rigcast.load_comparison/1");
  REQUIRE(all["rigs"].size() == 2);
  for (const Json& rig : all["rigs"]) {
    CHECK(rig["qualifies"] == true);
    const double usd = rig["usd_of_machine"], machines = rig["fleet"]["machines"];
    CHECK(rig["usd"].get<double>() == Approx(usd * machines));
    CHECK(rig["usd_each"].get<double>() == Approx(usd * machines / 150));
  }
  CHECK(all["rigs"][0]["usd"] <= all["rigs"][1]["usd"]);
  const auto within = [&](const std::string& usd) {
    std::vector<std::string> limited = words;
    limited.insert(limited.end(), {"--budget", usd});
    return run(limited);
  };
  CHECK(within("1").exit == 1);
  // What is within the budget is what it is without one; of the other nothing is simulated.
  const double dear = std::max(all["rigs"][0]["usd_of_machine"].get<double>(),
                               all["rigs"][1]["usd_of_machine"].get<double>());
  const Json some = Json::parse(within(std::to_string(dear - 1)).out);
  REQUIRE(some["rigs"].size() == 2);
  for (const Json& rig : some["rigs"]) {
    const Json& same = all["rigs"][rig["rig"] == all["rigs"][0]["rig"] ? 0 : 1];
    if (rig["usd_of_machine"] == dear) {
      CHECK(rig["way"].is_null());
      CHECK(contains(rig["why_not"].get<std::string>(), "more than the budget"));
      continue;
    }
    CHECK(rig["way"] == same["way"]);
    CHECK(rig["fleet"] == same["fleet"]);
    CHECK(rig["usd"] == same["usd"]);
  }
}

TEST_CASE("A comparison for users takes several models and has a row for each", "[cli][serving]") {
  const Outcome o = run({"compare", "--model", "llama-3.2-1b,qwen2.5-0.5b", "--quant", "Q8_0",
                         "--load", "chat", "--users", "4", "--gpus", "rtx-3060-12gb", "--slots",
                         "4", "--ubatch", "512", "--batch", "2048", "--format", "csv"});
  INFO(o.error);
  REQUIRE(o.exit == 0);
  CHECK(o.out.find("model,rig,way,quant,") == 0);
  CHECK(std::ranges::count(o.out, '\n') == 3);
  CHECK(contains(o.out, "Llama 3.2 1B,rtx-3060-12gb,"));
  CHECK(contains(o.out, "Qwen2.5 0.5B,rtx-3060-12gb,"));
}

TEST_CASE("A cache in RAM that is cut is told by plan, compare and capacity, and limits the server",
          "[cli][serving]") {
  const auto text_of = [](const std::string& verb, const std::vector<std::string>& more) {
    std::vector<std::string> words = {
        verb,          "--model", "llama-3.2-1b", "--quant", "Q8_0",
        "--load",      "chat",    "--slots",      "16",      "--ubatch",
        "512",         "--batch", "2048",         "--ram",   "2xddr4-3200:8GiB",
        "--ram-cache", "32GiB"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome o = run(words);
    INFO(o.error);
    REQUIRE(o.exit == 0);
    std::string one_line = o.out;
    std::ranges::replace(one_line, '\n', ' ');
    return one_line;
  };
  const std::string plan = text_of("plan", {"--gpu", "rtx-3060-12gb", "--users", "20"});
  CHECK(contains(plan, "  note   RAM has room for "));
  // The command's limit is the one that the note names.
  const auto at = plan.find("--cache-ram ");
  REQUIRE(at != std::string::npos);
  const int mib = std::atoi(plan.c_str() + at + 12);
  CHECK(mib > 1000);
  CHECK(contains(plan, "-cram " + std::to_string(mib)));
  for (const char* verb : {"compare", "capacity"}) {
    std::vector<std::string> more = {"--gpus", "rtx-3060-12gb"};
    if (verb == std::string("compare")) more.insert(more.end(), {"--users", "20"});
    CHECK(contains(text_of(verb, more), "  note   rtx-3060-12gb: RAM has room for "));
  }
}

TEST_CASE("plan and compare refuse what they cannot answer", "[cli][serving]") {
  check_refused(served("plan", {"--load", "chat"}), {"how many users", "--users 40"});
  check_refused(served("plan", {"--users", "40"}), {"no latency is wanted"});
  check_refused(served("plan", {"--users", "40", "--load", "chat", "--min-tps", "5"}), {"--slo"});
  check_refused(served("plan", {"--users", "40", "--load", "chat", "--emit", "ollama"}),
                {"llama.cpp"});
  check_refused(served("plan", {"--users", "4", "--load", "chat", "--runtime", "transformers"}),
                {"one request at a time"});
}

TEST_CASE("capacity refuses what has none", "[cli][serving]") {
  check_refused(served("capacity", {}), {"no load", "--load chat"});
  check_refused(served("capacity", {"--users", "2"}), {"no latency is wanted", "--slo"});
  check_refused(served("capacity", {"--load", "azure-2023-conv", "--slo", "ttft=2s"}),
                {"a trace and a burst"});
  check_refused(served("simulate", {"--users", "2", "--runtime", "transformers"}),
                {"one request at a time"});
  check_refused(served("simulate", {"--users", "2", "--runtime", "vllm"}), {"Q8_0", "BF16"});
}
