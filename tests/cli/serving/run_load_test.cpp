// Loads that are run on this machine.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/program.hpp"

using namespace rigcast::cli_test;
using Json = nlohmann::json;

namespace {

// Ten short requests of two people.
std::vector<std::string> run_load(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"run",          "--model",
                                    "smollm2-135m", "--synthetic",
                                    "--users",      "2",
                                    "--context",    "1024",
                                    "--set",        "load.requests=10",
                                    "--set",        "load.prompt_tokens={ min = 5, max = 40 }",
                                    "--set",        "load.output_tokens=4"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string text_of(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("A load is run in real time, with the figures of a forecast", "[cli][serving][run]") {
  const rigcast::test::Folder folder;
  const std::string times = folder / "times.csv";
  const Outcome o = run(run_load({"--turns", "2", "--requests", times, "--format", "json"}));
  INFO(o.error);
  REQUIRE(o.exit == 0);
  const Json report = Json::parse(o.out);
  CHECK(report["origin"] == "measured");
  // Of a single request nothing was measured.
  CHECK(report["longest_context"] == 1024);
  CHECK(report["bottleneck"]["decode"].is_null());
  CHECK(report["bottleneck"]["prefill"].is_null());
  CHECK(report["decode"]["tokens_per_s"].is_null());
  CHECK(report["prefill_tokens_per_s"].is_null());
  CHECK(report["utilisation"]["vram"].is_null());
  CHECK(report["traffic_bytes"]["vram"].is_null());
  const Json serving = report["serving"];
  CHECK(serving["requests"] == 10);
  CHECK(double(serving["ttft_s"]["p50"]) > 0);
  CHECK(double(serving["tpot_s"]["p50"]) > 0);
  CHECK(double(serving["running"]["mean"]) <= 2);
  const std::string csv = text_of(times);
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 11);
  CHECK(csv.rfind("request,arrival_s,queued_s,scheduled_s,first_token_s,last_token_s,", 0) == 0);
}

TEST_CASE("simulate writes the times of each request", "[cli][serving]") {
  const rigcast::test::Folder folder;
  const std::string times = folder / "times.csv";
  const Outcome o = run({"simulate", "--rig", "desktop-ddr5-cpu-only", "--runtime", "rigcast",
                         "--model", "llama-3.2-1b", "--users", "2", "--load", "chat", "--context",
                         "4096", "--requests", times});
  INFO(o.error);
  REQUIRE(o.exit == 0);
  const std::string csv = text_of(times);
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 1001);
  check_refused({"simulate", "--rig", "desktop-ddr5-cpu-only", "--model", "llama-3.2-1b",
                 "--requests", times},
                {"--requests", "no load"});
}

TEST_CASE("run refuses what a load has not", "[cli][serving][run]") {
  check_refused(run_load({"--format", "csv"}), {"a load has no csv", "--requests"});
  check_refused(run_load({"--prompt", "hello"}), {"prompts of its own"});
  check_refused(run_load({"--trace", "trace.json"}), {"no timeline"});
  check_refused(run_load({"--repeat", "5"}), {"a load is run once"});
  check_refused(run_load({"--start", "cold"}), {"a model that is loaded", "--start"});
  check_refused(run_load({"--set", "scheduler.order=\"prompts-first\""}), {"order of admission"});
  check_refused({"run", "--model", "smollm2-135m", "--synthetic", "--requests", "times.csv"},
                {"no load"});
}

TEST_CASE("A run and its forecast tell of the same tiers, and nothing is left on disk",
          "[cli][serving][run]") {
  const rigcast::test::Folder folder;
  const std::string disk = folder.path().string() + ":64MiB";
  // Eight people whose turns do not fit into the pool together.
  const std::vector<std::string> load = {
      "--model",     "smollm2-135m",
      "--runtime",   "rigcast",
      "--users",     "8",
      "--turns",     "3",
      "--context",   "640",
      "--set",       "load.requests=40",
      "--set",       "load.prompt_tokens={ min = 80, max = 100 }",
      "--set",       "load.output_tokens=4",
      "--set",       "load.think_time=\"10 ms\"",
      "--set",       "scheduler.pool_tokens=640",
      "--set",       "scheduler.block_tokens=16",
      "--kv-disk",   disk,
      "--kv-restore"};
  const auto tiers = [&](std::vector<std::string> words, const std::string& when) {
    words.insert(words.end(), load.begin(), load.end());
    words.insert(words.end(), {when, "--format", "json"});
    const Outcome o = run(words);
    INFO(o.error);
    REQUIRE(o.exit == 0);
    CHECK(folder.names().empty());
    return Json::parse(o.out)["serving"]["kv"];
  };
  for (const std::vector<std::string>& verb :
       {std::vector<std::string>{"run", "--synthetic"},
        std::vector<std::string>{"simulate", "--rig", "desktop-ddr5-cpu-only"}}) {
    CAPTURE(verb.front());
    const Json always = tiers(verb, "always");
    CHECK(double(always["disk"]["capacity_bytes"]) == 64 << 20);
    CHECK(double(always["disk"]["to_disk_bytes"]) > 0);
    CHECK(double(always["disk"]["from_disk_bytes"]) > 0);
    CHECK(double(always["disk"]["hit_rate"]) > 0);
    CHECK(always["restore"].is_null());
    const Json never = tiers(verb, "never");
    CHECK(double(never["disk"]["to_disk_bytes"]) > 0);
    CHECK(double(never["disk"]["from_disk_bytes"]) == 0);
    const Json decided = tiers(verb, "auto");
    CHECK(double(decided["restore"]["from_disk_bytes_per_s"]) > 0);
    CHECK(double(decided["restore"]["prompt_tokens_per_s"]) > 0);
    CHECK(decided["restore"]["from_ram_bytes_per_s"].is_null());
  }
}

TEST_CASE("A cache on disk that cannot be is refused", "[cli][serving]") {
  check_refused(run_load({"--kv-disk", "/tmp:0GiB"}), {"not a plausible size", "DIR:SIZE"});
  check_refused(run_load({"--kv-disk", ":4GiB"}), {"names no folder"});
  check_refused(run_load({"--kv-restore", "always"}), {"nothing comes back", "--kv-disk DIR"});
  check_refused(run_load({"--kv-disk", "/tmp", "--set", "scheduler.prefix_cache=false"}),
                {"without a prefix cache"});
  for (const char* runtime : {"vllm", "sglang", "llama.cpp"})
    check_refused({"simulate", "--gpu", "rtx-4090", "--model", "llama-3.2-1b", "--users", "2",
                   "--runtime", runtime, "--kv-disk", "/tmp"},
                  {"keeps on disk", "is not forecast", "--runtime rigcast"});
}
