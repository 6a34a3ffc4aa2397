// What the profiles state of servers, by the machine.
#include "core/scenario/server_rules.hpp"

#include <stdexcept>

#include "core/scenario/batch_limits.hpp"
#include "core/serving/pool_tokens.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
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

TEST_CASE("Steps of rigcast's server are ubatches", "[serving]") {
  CHECK(policy_of("rigcast", "h100-sxm").step_tokens == 512);
  CHECK(policy_of("rigcast", "h100-sxm", {{"runtime.ubatch", "128"}}).step_tokens == 128);
  CHECK(policy_of("rigcast", "h100-sxm",
                  {{"runtime.ubatch", "128"}, {"scheduler.token_budget", "256"}})
            .step_tokens == 256);
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

TEST_CASE("Ollama starts one slot, and rigcast's engine has a pool of blocks", "[serving]") {
  const Scenario s = scenario({{"runtime.name", "ollama"}, {"load.users", "2"}});
  CHECK(s.scheduler->sequences == 1);
  CHECK(s.scheduler->step_tokens == 512);
  CHECK(s.settings.batch == 512);
  CHECK(s.scheduler->max_waiting == 512);
  CHECK(scenario({{"runtime.name", "ollama"}, {"runtime.batch", "256"}}).settings.batch == 256);
  const Scenario own = scenario({{"runtime.name", "rigcast"},
                                 {"load.users", "2"},
                                 {"workload.context", "2000"},
                                 {"scheduler.max_sequences", "4"}});
  CHECK(own.scheduler->layout == KvLayout::kBlocks);
  CHECK(own.settings.ubatch == own.scheduler->step_tokens);
  CHECK(stated_pool_tokens(*own.scheduler, 2000) == 4 * 2016);  // in blocks of 32
  const Scenario stated = scenario(
      {{"runtime.name", "rigcast"}, {"load.users", "2"}, {"scheduler.pool_tokens", "1000"}});
  CHECK(stated_pool_tokens(*stated.scheduler, 4096) == 992);
  CHECK(pool_tokens(stated).least == 992);
  CHECK(pool_tokens(stated).most == 992);
  // One request is computed in ubatches as ever.
  CHECK(scenario({{"runtime.name", "rigcast"}, {"runtime.ubatch", "1024"}}).settings.ubatch ==
        1024);
}

TEST_CASE("A pool leaves room to layers, however many users there are, but for one context",
          "[serving]") {
  const auto pool = [](const Settings& more) {
    Settings settings = {{"rig.gpu", "[\"rtx-3090\"]"},
                         {"runtime.name", "rigcast"},
                         {"workload.context", "4001"},
                         {"scheduler.max_sequences", "8"}};
    settings.insert(settings.end(), more.begin(), more.end());
    return pool_tokens(scenario(settings));
  };
  for (const Settings& load : {Settings{{"load.users", "2"}}, Settings{{"load.users", "100"}},
                               Settings{{"load.rate", "1"}}}) {
    CHECK(pool(load).least == 4032);  // in blocks of 32
    CHECK(pool(load).most == 8 * 4032);
  }
  // Where blocks are in RAM, layers need not give way to them.
  const PoolTokens in_ram = pool({{"load.users", "2"}, {"kv.policy", "ram"}});
  CHECK(in_ram.least == in_ram.most);
}

TEST_CASE("A load is not forecast with what rigcast's engine refuses", "[serving]") {
  const auto error = [](const Settings& more) -> std::string {
    Settings settings = {{"runtime.name", "rigcast"}};
    settings.insert(settings.end(), more.begin(), more.end());
    try {
      scenario(settings);
    } catch (const std::invalid_argument& refused) {
      return refused.what();
    }
    return "";
  };
  const std::vector<std::pair<Settings, BatchRefusal>> refused = {
      {{{"kv.policy", "combined"}}, kNoHostShareOfBatches},
      {{{"kv.policy", "paged"}, {"kv.cold_type", "q8_0"}}, kNoColdTypesOfBatches},
      {{{"kv.policy", "stream"}, {"kv.cold_type", "q4_0"}}, kNoColdTypesOfBatches},
      {{{"placement.decode_device", "cpu"}}, kNoHandoverOfBatches}};
  for (const auto& [settings, why] : refused) {
    Settings with_load = settings;
    with_load.emplace_back("load.users", "2");
    const std::string text = error(with_load);
    INFO(settings.back().first);
    CHECK(text.find(settings.back().first + ": ") != std::string::npos);  // where
    CHECK(text.find(why.what) != std::string::npos);
    CHECK(text.find(why.hint) != std::string::npos);
    CHECK(error(settings).empty());  // one sequence
  }
  // Types of cold blocks say nothing where there are none, and a quantized cache has its own.
  CHECK(error({{"load.users", "2"}, {"kv.cold_type", "q8_0"}}).empty());
  CHECK(error({{"load.users", "2"},
               {"kv.policy", "paged"},
               {"kv.type_k", "q8_0"},
               {"kv.type_v", "q8_0"}})
            .empty());
  CHECK(
      error(
          {{"load.users", "2"}, {"placement.gpu_layers", "0"}, {"placement.decode_device", "cpu"}})
          .empty());
}

TEST_CASE("A load on GPUs of which no batch was measured is said to be without evidence",
          "[serving]") {
  const auto notes = [](const char* gpu, Settings more = {}) {
    Settings settings = {{"rig.gpu", "[\"" + std::string(gpu) + "\"]"},
                         {"runtime.name", "rigcast"}};
    settings.insert(settings.end(), more.begin(), more.end());
    std::string all;
    for (const std::string& note : scenario(settings).warnings) all += note + "\n";
    return all;
  };
  const Settings load = {{"load.users", "2"}};
  for (const char* gpu : {"gtx-1080-ti", "mi50-32gb", "rtx-4090", "rtx-2080-ti"}) {
    INFO(gpu);
    CHECK(notes(gpu, load).find("no measured load of rigcast on") != std::string::npos);
    CHECK(notes(gpu).find("no measured load") == std::string::npos);
  }
  CHECK(notes("rtx-2080-ti", load).find("write all weights out as FP16") != std::string::npos);
  for (const char* gpu : {"h100-sxm", "h200-sxm"})
    CHECK(notes(gpu, load).find("no measured load") == std::string::npos);
}

TEST_CASE("GPUs share every layer of a server, or it is said why not", "[serving]") {
  const Catalogue catalogue(test::source_dir());
  const auto with_gpus = [&](const std::string& rig, const char* runtime = "vllm") {
    const auto document = TomlDocument::parse(
        "[rig]\n" + rig + "\n[model]\nname = \"llama-3.1-8b\"\nquant = \"" +
            (std::string(runtime) == "vllm" ? "BF16" : "Q4_K_M") + "\"\n[runtime]\nname = \"" +
            runtime + "\"\n[placement]\ntensor_parallel = 2\n",
        "test");
    REQUIRE(document);
    return make_scenario(*document, catalogue);
  };
  const auto refusal = [&](const std::string& rig, const char* runtime = "vllm") {
    const auto s = with_gpus(rig, runtime);
    return s ? std::string() : s.error().text();
  };
  const auto two = with_gpus("gpu = [\"rtx-3090\", \"rtx-3090\"]");
  REQUIRE(two);
  REQUIRE(two->rig.gpus.size() == 1);
  CHECK(two->rig.gpus.front().memory.value == 48_GiB);
  // Such cards exchange through the host's memory, at a rate that nobody measured.
  CHECK(std::ranges::any_of(two->warnings, [](const std::string& note) {
    return note.find("which is assumed") != std::string::npos;
  }));
  const auto bridged =
      with_gpus("gpu = [\"h100-sxm\", \"h100-sxm\"]\nall_reduce_rate = \"300 GB/s\"");
  REQUIRE(bridged);
  CHECK(bridged->rig.gpus.front().shared->exchange.bus.value.value == Approx(300e9));
  CHECK(refusal("gpu = [\"rtx-3090\", \"rtx-4090\"]").find("one kind") != std::string::npos);
  CHECK(refusal("gpu = [\"mi300x\", \"mi300x\"]").find("not known") != std::string::npos);
  CHECK(refusal("gpu = [\"mi300x\", \"mi300x\"]\nall_reduce_rate = \"200 GB/s\"\n"
                "all_reduce_latency = \"9 us\"")
            .empty());
  CHECK(refusal("gpu = [\"rtx-3090\", \"rtx-3090\"]", "llama.cpp").find("llama.cpp") !=
        std::string::npos);
  CHECK(refusal("gpu = [\"rtx-3090\"]").find("2 GPUs, the rig has 1") != std::string::npos);
}
