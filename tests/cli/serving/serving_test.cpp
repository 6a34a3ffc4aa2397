// Loads and capacities as users ask for them.
#include <nlohmann/json.hpp>

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
