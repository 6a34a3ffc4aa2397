// Placements by the planner, compared with a grid of placements, each with its own cost and memory.
#include "planner/place_layers.hpp"

#include <algorithm>
#include <string>

#include "perfmodel/serial_time.hpp"
#include "planner/crossover.hpp"
#include "tests/catch.hpp"
#include "tests/sim/scenario_generator.hpp"

using namespace rigcast;
using namespace rigcast::planner;
using namespace rigcast::fixtures;

namespace {

double request_seconds(const Scenario& s) { return SerialForecast(s).request().value; }

struct Best {
  double seconds = 1e300;
  PlacementSettings placement;
};

// Every number of layers, some splits, some experts in RAM.
std::optional<Best> best_of_grid(Scenario s) {
  const int layers = s.model.layers;
  std::vector<int> experts{0};
  if (s.model.moe) experts = {0, layers / 4, layers / 2, layers * 3 / 4, layers};
  std::vector<std::vector<double>> splits{{}};
  if (s.rig.gpus.size() == 2) splits = {{1, 1}, {1, 0}, {0, 1}, {2, 1}, {1, 2}, {3, 2}, {2, 3}};
  std::optional<Best> best;
  for (int n = 0; n <= layers + 1; ++n)
    for (const int moe : experts)
      for (const auto& split : splits) {
        s.placement.gpu_layers = n;
        s.placement.cpu_moe_layers = moe;
        s.placement.tensor_split = split;
        if (!fits(s)) continue;
        const double seconds = request_seconds(s);
        if (!best || seconds < best->seconds) best = Best{seconds, s.placement};
      }
  return best;
}

std::string text(const PlacementSettings& p) {
  std::string out = std::to_string(*p.gpu_layers) + " layers, experts of " +
                    std::to_string(p.cpu_moe_layers) + " in RAM, split";
  for (const double share : p.tensor_split) out += " " + std::to_string(share);
  return out;
}

}  // namespace

TEST_CASE("Placed layers are as fast as the best of a grid", "[planner]") {
  ScenarioGenerator generator(7);
  int missed = 0;
  for (int i = 0; i < 200; ++i) {
    Scenario s = generator.next();
    s.placement.decode_device = DecodeDevice::kPlacement;
    s.workload.output_tokens = 200;
    if (s.kv.policy == KvPolicy::kSpill) s.kv.policy = KvPolicy::kVram;
    const auto want = best_of_grid(s);
    const auto got = place_layers_or_ffns(s, request_seconds);  // as plans choose
    INFO(i << ": " << generator.name());
    if (!want) continue;
    CHECK(got);
    if (!got) continue;
    s.placement = *got;
    s.placement = balance_layers(s, request_seconds);
    CHECK(fits(s));
    const double seconds = request_seconds(s);
    INFO("placed: " << text(s.placement) << ", " << seconds << " s; grid: " << text(want->placement)
                    << ", " << want->seconds << " s");
    missed += seconds > 1.01 * want->seconds;
    CHECK(seconds <= 1.01 * want->seconds);
  }
  CHECK(missed == 0);
}

// 70B as Q8_0, 75 GB: as many GPUs of 24 GB as it takes, and no more of those that are left.
TEST_CASE("Every GPU is used before the host is", "[planner]") {
  for (const int gpus : {2, 3, 4, 6, 8}) {
    Scenario s = scenario({{"model.name", "llama-3.3-70b"},
                           {"model.quant", "Q8_0"},
                           {"rig.gpu", "[\"" + std::to_string(gpus) + "xrtx-3090\"]"},
                           {"rig.ram", "2xddr5-6000:128GiB"},
                           {"workload.context", "8192"}});
    INFO(gpus << " GPUs");
    const auto placed = place_layers(s);
    REQUIRE(placed);
    s.placement = *placed;
    s.placement = balance_layers(s, request_seconds);
    const auto used =
        std::ranges::count_if(s.placement.tensor_split, [](double n) { return n > 0; });
    CHECK(used == std::min(gpus, 4));
    if (gpus >= 4) CHECK(*s.placement.gpu_layers == s.model.layers + 1);
    if (gpus < 4) CHECK(*s.placement.gpu_layers >= 24 * gpus);
    // Of equal placements the first wins.
    CHECK(std::ranges::is_sorted(s.placement.tensor_split, {}, [](double n) { return n == 0; }));
  }
}

// One dense layer in front, or two, have no experts that could be in RAM.
TEST_CASE("Where all fits on the GPU, no experts are said to be in RAM", "[planner]") {
  for (const char* model : {"glm-4.7-flash", "deepseek-v2-lite", "lfm2-8b-a1b", "qwen3-30b-a3b"}) {
    Scenario s = scenario({{"model.name", model},
                           {"model.quant", "Q4_K_M"},
                           {"rig.gpu", "[\"h100-sxm\"]"},
                           {"placement.gpu_layers", "\"auto\""},
                           {"workload.context", "8192"}});
    INFO(model);
    const auto placed = place_layers_or_ffns(s, request_seconds);
    REQUIRE(placed);
    CHECK(*placed->gpu_layers == s.model.layers + 1);
    CHECK(placed->cpu_moe_layers == 0);
  }
}

TEST_CASE("Of GPUs that are alike the last ones stay empty, however layers are balanced",
          "[planner]") {
  for (const char* quant : {"Q5_K_S", "Q4_K_M", "Q2_K"}) {
    Scenario s = scenario({{"model.name", "llama-3.3-70b"},
                           {"model.quant", quant},
                           {"rig.gpu", "[\"4xrtx-3090\"]"},
                           {"workload.context", "8192"}});
    INFO(quant);
    s.placement = *place_layers(s);
    s.placement = balance_layers(s, request_seconds);
    CHECK(s.placement.tensor_split.front() > 0);
    CHECK(std::ranges::is_sorted(s.placement.tensor_split, {}, [](double n) { return n == 0; }));
  }
}

// Two cards of 6 GB for a 14B: most of each layer fits, and what the sum over layers leaves free on
// both holds the FFNs of two more.
TEST_CASE("What is left free on several GPUs is filled with FFNs", "[planner]") {
  Scenario s = scenario({{"model.name", "qwen3-14b"},
                         {"model.quant", "Q5_K_M"},
                         {"rig.gpu", "[\"2xrtx-2060\"]"},
                         {"rig.cpu", "ryzen-7-5800x"},
                         {"rig.ram", "2xddr4-3200:32GiB"},
                         {"rig.pcie", "3x16"},
                         {"runtime.headroom", "1 GiB"},
                         {"workload.context", "2048"}});
  s.placement.gpu_layers = s.model.layers + 1;
  s.placement.tensor_split = {3, 2};
  s.placement.cpu_ffn_layers = 10;
  REQUIRE(fits(s));
  const double by_hand = request_seconds(s);
  s.placement = *place_layers_or_ffns(s, request_seconds);
  s.placement = balance_layers(s, request_seconds);
  INFO(text(s.placement) << ", FFNs of " << s.placement.cpu_ffn_layers << " in RAM");
  CHECK(fits(s));
  CHECK(request_seconds(s) <= 1.01 * by_hand);
}

// Crossing to one more GPU costs every token 20 us, and buffers of its own.
TEST_CASE("Another GPU of the same kind makes no placement slower", "[planner]") {
  for (const char* model : {"llama-3.3-70b", "qwen3-30b-a3b", "llama-3.1-8b"})
    for (const char* quant : {"Q8_0", "Q4_K_M"})
      for (const char* policy : {"vram", "ram"}) {
        double before = 1e300;
        for (const int gpus : {1, 2, 3, 4, 5}) {
          Scenario s = scenario({{"model.name", model},
                                 {"model.quant", quant},
                                 {"kv.policy", policy},
                                 {"rig.gpu", "[\"" + std::to_string(gpus) + "xrtx-3060-12gb\"]"},
                                 {"rig.ram", "2xddr5-6000:128GiB"},
                                 {"workload.context", "8192"}});
          const auto placed = place_layers(s);
          INFO(model << " " << quant << ", KV " << policy << ", " << gpus << " GPUs");
          REQUIRE(placed);
          s.placement = *placed;
          s.placement = balance_layers(s, request_seconds);
          const double seconds = request_seconds(s);
          CHECK(seconds < 1.01 * before);
          before = std::min(before, seconds);
        }
      }
}
