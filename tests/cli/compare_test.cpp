// `rigcast compare` as people type it.
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

using namespace rigcast::cli_test;

namespace {

Outcome compare(std::vector<std::string> more) {
  std::vector<std::string> words{"compare",
                                 "--model",
                                 "llama-3.1-8b",
                                 "--context",
                                 "8192",
                                 "--gpus",
                                 "rtx-3060-12gb,rtx-4090,2xrtx-3060-12gb",
                                 "--rig",
                                 "desktop-ddr5",
                                 "--output-tokens",
                                 "200"};
  words.insert(words.end(), more.begin(), more.end());
  return run(words);
}

nlohmann::json rigs(const std::vector<std::string>& more) {
  std::vector<std::string> words = more;
  words.insert(words.end(), {"--format", "json"});
  const Outcome o = compare(words);
  INFO(o.error);
  REQUIRE(o.exit == 0);
  const auto j = nlohmann::json::parse(o.out);
  CHECK(j.at("schema") == "rigcast.comparison/1");
  return j.at("rigs");
}

double request_s(const nlohmann::json& rig) {
  return rig.at("models").at(0).at("request_s").get<double>();
}

}  // namespace

TEST_CASE("Every rig has a plan, a price and a power", "[cli][compare]") {
  const auto all = rigs({});
  REQUIRE(all.size() == 3);
  for (const auto& r : all) {
    CHECK(r.at("usd") > 0);
    CHECK(r.at("watts") > 0);
    CHECK(r.at("qualifies") == true);
    CHECK(r.at("models").at(0).at("fits") == true);
  }
}

TEST_CASE("Within a budget the fastest comes first, without one speed for the price",
          "[cli][compare]") {
  const auto rich = rigs({"--budget", "5000"});
  for (const auto& r : rich) CHECK(request_s(rich.front()) <= request_s(r));
  CHECK(rich.front().at("rig") == "rtx-4090");
  const auto poor = rigs({"--budget", "700"});
  CHECK(poor.front().at("rig") != "rtx-4090");
  CHECK(poor.front().at("usd") <= 700);
  const auto any = rigs({});
  for (const auto& r : any)
    CHECK(any.front().at("usd").get<double>() * request_s(any.front()) <=
          1.0001 * r.at("usd").get<double>() * request_s(r));
}

TEST_CASE("One's own price counts, for every card of its kind", "[cli][compare]") {
  for (const auto& r : rigs({"--price", "rtx-3060-12gb=150"})) {
    if (r.at("rig") == "rtx-3060-12gb") CHECK(r.at("usd") == 150);
    if (r.at("rig") == "2xrtx-3060-12gb") CHECK(r.at("usd") == 300);
  }
  CHECK(compare({"--price", "samsung-990-pro=90"}).exit == 0);
  for (const char* wrong : {"rtx-3060-12gb", "rtx-3060-12gb=", "rtx-3060-12gb=cheap", "rtx-99=5"})
    CHECK(compare({"--price", wrong}).exit == 2);
}

TEST_CASE("Where nothing qualifies the exit says so", "[cli][compare]") {
  const Outcome o = compare({"--budget", "10"});
  CHECK(o.exit == 1);
  CHECK(contains(o.out, "nothing does all of it for 10 USD"));
  CHECK(compare({"--min-tps", "9000"}).exit == 1);
}

TEST_CASE("A machine of the catalogue stands among GPUs, without a price if it has none",
          "[cli][compare]") {
  const Outcome o =
      run({"compare", "--model", "llama-3.1-8b", "--gpus", "macbook-air-m2,rtx-3090", "--context",
           "4096", "--output-tokens", "100"});
  INFO(o.error);
  CHECK(o.exit == 0);
  CHECK(contains(o.out, "macbook-air-m2"));
  CHECK(contains(o.out, "?"));
  CHECK(run({"compare", "--model", "llama-3.1-8b", "--gpus", "rtx-4900"}).exit == 2);
  const Outcome rigs = run({"compare", "--model", "llama-3.1-8b", "--rigs", "my-toaster"});
  CHECK(rigs.exit == 2);
  CHECK(contains(rigs.error, "--rigs: no rig named"));
  CHECK(contains(run({"compare", "--model", "llama-3.1-8b"}).error, "nothing to compare"));
  CHECK(compare({"--gpu", "rtx-3090"}).exit == 2);
  CHECK(compare({"--budget", "nan"}).exit == 2);
}

TEST_CASE("Several models are compared at once", "[cli][compare]") {
  const Outcome o = run({"compare", "--model", "llama-3.2-1b,llama-3.1-8b", "--gpus",
                         "rtx-3060-12gb,rtx-4090", "--context", "4096"});
  INFO(o.error);
  CHECK(o.exit == 0);
  CHECK(contains(o.out, "Llama 3.2 1B, 512-token prompt"));
  CHECK(contains(o.out, "Llama 3.1 8B, 512-token prompt"));
  CHECK(run({"compare", "--model", "llama-3.2-1b,nobodys-7b", "--gpus", "rtx-4090"}).exit == 2);
}

TEST_CASE("An interrupt ends a comparison as it ends any program, not as an answer",
          "[cli][compare]") {
  const Outcome o = run({"compare", "--model", "qwen2.5-14b,llama-3.1-8b,qwen3-30b-a3b", "--base",
                         "budget-rtx-3060", "--context", "8192"},
                        {.interrupt_after = std::chrono::milliseconds(1500)});
  CHECK(o.exit == 128 + SIGINT);
  CHECK(o.out.empty());
}

TEST_CASE("Without rigs to compare, parts that help the one there are", "[cli][compare]") {
  const Outcome o = run({"compare", "--model", "qwen2.5-14b", "--base", "budget-rtx-3060",
                         "--context", "8192", "--output-tokens", "200", "--format", "json"});
  INFO(o.error);
  REQUIRE(o.exit == 0);
  const auto all = nlohmann::json::parse(o.out).at("rigs");
  REQUIRE(all.size() > 3);
  CHECK(all[0].at("rig") == "as it is");
  CHECK(all[0].at("usd").is_null());
  double before = 1e9;
  for (std::size_t i = 1; i < all.size(); ++i) {
    CHECK(request_s(all[i]) < request_s(all[0]));
    if (all[i].at("usd").is_null()) continue;
    const double worth =
        (request_s(all[0]) / request_s(all[i]) - 1) / all[i].at("usd").get<double>();
    CHECK(worth <= before);
    before = worth;
  }
  const Outcome text = run({"compare", "--model", "qwen2.5-14b", "--base", "budget-rtx-3060",
                            "--context", "8192", "--output-tokens", "200"});
  CHECK(contains(text.out, "most for the money: "));
  CHECK(contains(text.out, " times as fast"));
}
