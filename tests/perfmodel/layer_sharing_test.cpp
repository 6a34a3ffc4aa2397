// Limits of what GPUs that share every layer of llama.cpp are forecast to take.
#include "core/catalogue/interconnect.hpp"
#include "perfmodel/memory.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "perfmodel/serial_time.hpp"
#include "tests/catch.hpp"
#include "tests/core/catalogue_fixture.hpp"

using namespace rigcast;

namespace {

Scenario with_gpus(const std::string& gpus, const std::string& mode, const std::string& rig = "",
                   const std::string& model = "llama-3.1-8b") {
  auto s = fixtures::scenario("[rig]\ngpu = ['" + gpus + "']\n" + rig + "[model]\nname = '" +
                              model + "'\nquant = 'Q4_K_M'\n[placement]\nsplit_mode = '" + mode +
                              "'\ngpu_layers = 99\n[workload]\nprompt_tokens = 512\n"
                              "output_tokens = 128\ncontext = 4096\n");
  REQUIRE(s);
  return *std::move(s);
}

std::string exchange(const char* latency, const char* rate = "10000 GB/s") {
  return std::string("all_reduce_latency = '") + latency + "'\nall_reduce_rate = '" + rate + "'\n";
}

// Leaves what GPUs compute and read.
Scenario without_hosts(Scenario s) {
  for (BackendEfficiency& backend : s.runtime.backends) backend.launch.value = Seconds{0};
  for (auto* time : {&s.runtime.decode.token, &s.runtime.decode.sample,
                     &s.runtime.decode.host_logit, &s.runtime.decode.crossing})
    time->value = Seconds{0};
  s.runtime.prefill.mask_cycles.value = 0;
  s.rig.ram.bandwidth.value = BytesPerSecond{1e15};  // to which logits are copied
  for (HostLink& link : s.rig.links)
    for (auto* rate : {&link.h2d, &link.d2h, &link.pageable}) rate->value = BytesPerSecond{1e15};
  return s;
}

}  // namespace

TEST_CASE("Split modes of one GPU take what layers take", "[split]") {
  const Scenario alone = with_gpus("rtx-3090", "layer"), shared = with_gpus("rtx-3090", "tensor");
  CHECK(SerialForecast(shared).mean_token().value == SerialForecast(alone).mean_token().value);
  CHECK(SerialForecast(shared).prompt().value == SerialForecast(alone).prompt().value);
}

TEST_CASE("Builds of before the month in which a mode was merged have none", "[split]") {
  const auto with_build = [](const char* build) {
    return fixtures::scenario(
        "[rig]\ngpu = ['rtx-3090', 'rtx-3090']\n[model]\nname = "
        "'llama-3.1-8b'\nquant = 'Q4_K_M'\n[placement]\nsplit_mode = "
        "'tensor'\n[runtime]\nbuild = '" +
        std::string(build) + "'\n");
  };
  const auto early = with_build("2026-03");
  REQUIRE_FALSE(early);
  CHECK(early.error().message.find("that old have no split mode tensor") != std::string::npos);
  const auto merged = with_build("2026-04");
  REQUIRE(merged);
  // Their memory is told of as one.
  const MemoryPlan plan = plan_memory(*merged, resolve_placement(*merged), TokenCount(4096));
  CHECK(plan.devices.front().device == "2 GPUs together");
}

TEST_CASE("Where exchange and host take no time, n GPUs are n times as fast", "[split]") {
  const Scenario one = without_hosts(with_gpus("rtx-3090", "layer"));
  for (const int n : {2, 4}) {
    const Scenario all =
        without_hosts(with_gpus(std::to_string(n) + "xrtx-3090", "tensor", exchange("0 us")));
    // Sums of 16 KiB at 10 TB/s: 65 of 3 ns.
    CHECK(SerialForecast(one).mean_token().value / SerialForecast(all).mean_token().value ==
          Approx(n).epsilon(1e-3));
  }
}

TEST_CASE("Two sums a layer, and one of the logits, take the exchange's time", "[split]") {
  const auto token = [](const char* latency) {
    const Scenario s = with_gpus("2xrtx-3090", "tensor", exchange(latency));
    return SerialForecast(s).mean_token().value;
  };
  CHECK(token("100 us") - token("0 us") == Approx((2 * 32 + 1) * 100e-6).epsilon(1e-9));
}

TEST_CASE("A thread that launches for all GPUs takes as many times as long outside of graphs",
          "[split]") {
  const Scenario s = with_gpus("2xrtx-3090", "tensor", exchange("0 us"));
  const auto token = [&](int launchers, bool graphs) {
    Scenario changed = s;
    changed.rig.gpus.front().shared->launchers = launchers;
    changed.rig.gpus.front().shared->graphs = graphs;
    changed.rig.gpus.front().shared->launches = 0;
    return SerialForecast(changed).mean_token().value;
  };
  CHECK(token(2, true) == token(1, true));
  const double launches = token(2, false) - token(1, false);
  CHECK(launches > 0);
  CHECK(token(4, false) - token(2, false) == Approx(2 * launches).epsilon(1e-9));
}

TEST_CASE("With more GPUs than heads of KV each keeps the cache of one head", "[split]") {
  const auto kv_of_each = [](int gpus) {
    const Scenario s =
        with_gpus(std::to_string(gpus) + "xrtx-3090", "tensor", exchange("0 us"), "qwen2.5-1.5b");
    const MemoryPlan plan = plan_memory(s, resolve_placement(s), s.workload.last_position());
    return plan.devices.front().kv / double(gpus);
  };
  CHECK(kv_of_each(4).value == Approx(kv_of_each(2).value));
}

// gpt-fast, Llama 2 7B in BF16 on A100 SXM (github.com/pytorch-labs/gpt-fast at 0f925b5d): what one
// and two GPUs reach gives the time to read all weights and what does not shrink; with the time of
// sums in a graph, the rest follows.
TEST_CASE("Four and eight A100 are as fast as one and two and their sums tell", "[split]") {
  const auto sum = [](int gpus) {
    const auto e = gpu_exchange(fixtures::catalogue(), "nvlink-3", gpus, BytesPerSecond{25e9});
    REQUIRE(e);
    SharedLayers shared;
    shared.gpus = gpus;
    shared.exchange = *e;
    return 64 * all_reduce_time(shared, Bytes{2 * 4096}).value;
  };
  const double one = 1 / 104.9, two = 1 / 168.84;
  const double weights = 2 * (one - two + sum(2)), rest = one - weights;
  const auto rate = [&](int gpus) { return 1 / (weights / gpus + rest + sum(gpus)); };
  CHECK(rate(4) == Approx(254.02).epsilon(0.03));
  CHECK(rate(8) == Approx(328.43).epsilon(0.06));  // the table's line is through all sizes
}
