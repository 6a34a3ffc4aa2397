// What the profiles state of servers, by the machine.
#include "core/scenario/server_rules.hpp"

#include "tests/catch.hpp"
#include "tests/sim/scenario_fixtures.hpp"

using namespace rigcast;
using fixtures::scenario;
using fixtures::Settings;

namespace {

SchedulerPolicy policy_of(const char* runtime, const char* gpu, Settings more = {}) {
  Settings settings = {{"rig.gpu", "[\"" + std::string(gpu) + "\"]"},
                       {"runtime.name", runtime},
                       {"model.quant", "BF16"},
                       {"load.users", "2"}};
  settings.insert(settings.end(), more.begin(), more.end());
  return *scenario(settings).scheduler;
}

}  // namespace

TEST_CASE("Steps and sequences are those of the GPU's memory", "[serving]") {
  CHECK(policy_of("vllm", "rtx-4090").step_tokens == 2048);
  CHECK(policy_of("vllm", "a100-sxm-80gb").sequences == 256);  // not for A100
  CHECK(policy_of("vllm", "h100-sxm").step_tokens == 8192);
  CHECK(policy_of("vllm", "h100-sxm").sequences == 1024);
  CHECK(policy_of("vllm", "h100-sxm", {{"scheduler.token_budget", "512"}}).step_tokens == 512);
  CHECK(policy_of("sglang", "rtx-4090").step_tokens == 2048);
  CHECK(policy_of("sglang", "a100-pcie-40gb").step_tokens == 4096);
  CHECK(policy_of("sglang", "h100-sxm").step_tokens == 8192);
  CHECK(policy_of("tensorrt-llm", "rtx-4090").step_tokens == 8192);
  CHECK_FALSE(policy_of("tensorrt-llm", "rtx-4090").chunked);
}

TEST_CASE("SGLang's static share leaves what its steps and graphs need", "[serving]") {
  // 24 GiB less 512 MiB, 2,048 tokens of 1.5 MiB, 24 sequences of 2 MiB, and 128 MiB.
  CHECK(policy_of("sglang", "rtx-4090").memory_share == Approx(0.847));
  // With smaller steps an 80 GiB card leaves 10 GiB all the same.
  const double smallest =
      policy_of("sglang", "a100-sxm-80gb", {{"scheduler.token_budget", "1024"}}).memory_share;
  CHECK(smallest == Approx(0.875));
  CHECK(policy_of("sglang", "a100-sxm-80gb").memory_share ==
        Approx(1 - 13440.0 / 81920).epsilon(1e-3));
  CHECK(policy_of("sglang", "rtx-4090", {{"scheduler.memory_share", "0.7"}}).memory_share == 0.7);
}

TEST_CASE("Ollama starts one slot, and rigcast's engine has no more", "[serving]") {
  const Scenario s = scenario({{"runtime.name", "ollama"}, {"load.users", "2"}});
  CHECK(s.scheduler->sequences == 1);
  CHECK(s.scheduler->step_tokens == 512);
  CHECK(s.settings.batch == 512);
  CHECK(s.scheduler->max_waiting == 512);
  CHECK(scenario({{"runtime.name", "ollama"}, {"runtime.batch", "256"}}).settings.batch == 256);
  CHECK(scenario({{"runtime.name", "rigcast"}, {"load.users", "2"}}).scheduler->sequences == 1);
  const Catalogue catalogue(RIGCAST_SOURCE_DIR);
  auto document = TomlDocument::parse(
      "[rig]\ngpu = [\"rtx-4090\"]\n[model]\nname = \"llama-3.1-8b\"\n[runtime]\nname = "
      "\"rigcast\"\n[load]\nusers = 2\n[scheduler]\nslots = 4\n",
      "four.toml");
  REQUIRE(document);
  const auto four = make_scenario(*document, catalogue);
  REQUIRE_FALSE(four);
  CHECK(four.error().message.find("one request at a time") != std::string::npos);
}
