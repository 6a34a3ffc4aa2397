// Room of layers that keep the tokens of a window alone.
#include "sim/serving/scenario_room.hpp"

#include <string>

#include "core/model/kv_bytes.hpp"
#include "perfmodel/context/companions.hpp"
#include "perfmodel/memory.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "sim/serving/scenario_ram.hpp"
#include "sim/serving/simulate_load.hpp"
#include "tests/catch.hpp"
#include "tests/sim/scenario_fixtures.hpp"
#include "tests/sim/serving/serving_fixture.hpp"

using namespace rigcast;
using fixtures::check_nothing_lost;
using fixtures::scenario;
using fixtures::Settings;
using fixtures::step_time;
using fixtures::with;

namespace {

const Settings kGptOss = {{"rig.gpu", "[\"rtx-3090\"]"},
                          {"model.name", "gpt-oss-20b"},
                          {"model.quant", "BF16"},
                          {"runtime.name", "vllm"},
                          {"load.users", "2"},
                          {"scheduler.memory_share", "0.95"},
                          {"scheduler.max_sequences", "32"},
                          {"placement.gpu_layers", "25"},
                          {"workload.context", "131072"}};

CacheRoom room_of(const Scenario& s) {
  const Placement placement = resolve_placement(s);
  return cache_room_of(s, placement, plan_memory(s, placement, s.workload.context));
}

}  // namespace

TEST_CASE("vLLM gives layers with a window blocks of the window alone", "[serving][vllm]") {
  const Scenario s = scenario(kGptOss);
  const CacheRoom room = room_of(s);
  // Twelve layers of each kind: two groups. 128 tokens lie in up to nine blocks of 16.
  CHECK(room.windows.window == 128);
  CHECK(room.windows.per_block == 1);
  CHECK(room.windows.of(1, 16) == 1);
  CHECK(room.windows.of(100'000, 16) == 9);
  // Twice as many of long requests as of those that no window cuts.
  CHECK(double(tokens_of_long_requests(s, room)) ==
        Approx(2.0 * double(tokens_of_short_requests(s, room))).epsilon(0.002));
  // Not with a second tier, whose copies are of all layers; nor where the server keeps all tokens.
  const Scenario tier = scenario(with(kGptOss, {{"scheduler.ram_cache", "\"4 GiB\""}}));
  CHECK(room_of(tier).windows.window == 0);
  CHECK(double(room_of(tier).tokens) ==
        Approx(double(tokens_of_short_requests(s, room))).epsilon(0.001));
}

TEST_CASE("Layers of rigcast's engine come before its pool, which has what they leave",
          "[serving]") {
  const Settings two = {{"rig.gpu", "[\"rtx-2080-ti\"]"},
                        {"runtime.name", "rigcast"},
                        {"load.users", "2"},
                        {"placement.gpu_layers", "auto"}};
  const Scenario s = scenario(two);
  const Placement placement = resolve_placement(s);
  CHECK(placement.gpu_layers == s.model.layers + 1);
  const MemoryPlan plan = plan_memory(s, placement, s.workload.context);
  const TokenCount tokens = cache_room_of(s, placement, plan).tokens;
  CHECK(tokens > 8192);
  CHECK(tokens < 16 * 8192);
  // 512 MiB are left, but for what is rounded to a block of 128 tokens.
  const double block = 128 * 131072.0;
  CHECK(plan.devices.front().free().value == Approx(double(512 << 20)).margin(block));
  // What is stated is kept, whatever becomes of the layers.
  const Scenario stated = scenario(with(two, {{"scheduler.pool_tokens", "131072"}}));
  CHECK(resolve_placement(stated).gpu_layers < s.model.layers);
  CHECK(room_of(stated).tokens == 131072);
  // Where there is room, the pool has the context of all that may run.
  CHECK(room_of(scenario(with(two, {{"rig.gpu", "[\"h100-sxm\"]"}}))).tokens == 16 * 8192);
}

TEST_CASE("A context fits vLLM by the blocks that it takes, within the share of the memory",
          "[serving][vllm]") {
  // All 62 layers of a 27B would take 47 GiB of 100,000 tokens; 52 of them keep 1,024.
  const Settings gemma = {{"rig.gpu", "[\"h100-pcie\"]"}, {"model.name", "gemma-3-27b"},
                          {"model.quant", "BF16"},        {"runtime.name", "vllm"},
                          {"placement.gpu_layers", "63"}, {"workload.context", "100000"}};
  const Scenario windows = scenario(gemma);
  CHECK(plan_memory(windows, resolve_placement(windows), 100'000).fits());
  // 8B in BF16 on 24 GB: 56,000 tokens at 0.95, less at 0.9, whatever the context is.
  const auto fits = [](const char* context, const char* share) {
    const Scenario s = scenario({{"rig.gpu", "[\"rtx-4090\"]"},
                                 {"runtime.name", "vllm"},
                                 {"model.quant", "BF16"},
                                 {"scheduler.memory_share", share},
                                 {"workload.context", context}});
    return plan_memory(s, resolve_placement(s), s.workload.context).fits();
  };
  CHECK(fits("44000", "0.9"));
  CHECK_FALSE(fits("52000", "0.9"));
  CHECK(fits("52000", "0.95"));
}

TEST_CASE("A cache of blocks in RAM is not free memory", "[serving][vllm][ram]") {
  const auto host = [](const Settings& more) {
    const Scenario s = scenario(with(kGptOss, more));
    return plan_memory(s, resolve_placement(s), s.workload.context).devices.back();
  };
  const DeviceMemory without = host({}), with_tier = host({{"scheduler.ram_cache", "\"4 GiB\""}});
  CHECK((without.free() - with_tier.free()).value == Approx(Bytes{4_GiB}.value));
  CHECK(with_tier.page_cache <= with_tier.free());
}

TEST_CASE("llama-server's states in RAM take no more than all else leaves", "[serving][ram]") {
  const auto with_ram = [](const char* ram, const Settings& more = {}) {
    return scenario(with({{"rig.gpu", "[\"rtx-3090\"]"},
                          {"rig.ram", ram},
                          {"model.name", "llama-3.1-8b"},
                          {"model.quant", "Q4_K_M"},
                          {"runtime.name", "llama.cpp"},
                          {"load.users", "2"},
                          {"workload.context", "4096"}},
                         more));
  };
  const auto plan_of = [](const Scenario& s) {
    return plan_memory(s, resolve_placement(s), s.workload.context);
  };
  const auto host = [&](const char* ram) { return plan_of(with_ram(ram)).devices.back(); };
  CHECK(host("\"2xddr4-3200:32GiB\"").kv == 8_GiB);
  const DeviceMemory small = host("\"2xddr4-3200:8GiB\"");
  CHECK(small.kv.value > 0);
  CHECK(small.free().value == 0);
  CHECK(small.page_cache.value == 0);
  // It fills while requests are served: when the server starts, the file is where it will be.
  const Scenario starts = with_ram("\"2xddr4-3200:8GiB\"");
  CHECK(held_of_file(starts, plan_of(starts)) == file_bytes(starts));
  // A limit that is stated is one as well, of whatever size; a note tells what is left of it.
  CHECK(note_on_ram_limit(with_ram("\"2xddr4-3200:32GiB\""), 8_GiB).empty());
  for (const char* limit : {"\"7.9 GiB\"", "\"8 GiB\"", "\"20 GiB\""}) {
    const Scenario s = with_ram("\"2xddr4-3200:8GiB\"", {{"scheduler.ram_cache", limit}});
    const auto simulation = LoadSimulation::make(s);
    REQUIRE(simulation);
    CHECK(simulation->memory().ram_cache == small.kv);
    CHECK(note_on_ram_limit(s, small.kv).starts_with("RAM has room for"));
  }
}

TEST_CASE("Blocks of windows are taken and given back with the others", "[serving]") {
  std::vector<ServedRequest> load;
  for (int i = 0; i < 300; ++i)
    load.push_back({Seconds{0.05 * i}, 20 + (i * 37) % 300, 1 + (i * 11) % 90, {}, 0});
  SchedulerPolicy policy;
  policy.sequences = 8;
  policy.step_tokens = 256;
  constexpr std::size_t kBlocks = 60;
  const auto run_of = [&](const CacheRoom& room) {
    const auto run = serve(load, policy, room, step_time);
    REQUIRE(run);
    CHECK(run->free_blocks_at_end == kBlocks);
    CHECK(run->peak_blocks <= kBlocks);
    check_nothing_lost(*run, load);
    return *run;
  };
  const TokenCount all = TokenCount(kBlocks) * 16;
  const ServingRun none = run_of(all);
  const ServingRun windows = run_of({all, {64, 1}});
  CHECK(windows.end > none.end);  // windows take a part of the room
  CHECK(windows.blocks > none.blocks);
  // A request that fits without them may not with them.
  const std::vector<ServedRequest> longest = {{Seconds{0}, all - 10, 10, {}, 0}};
  CHECK(serve(longest, policy, all, step_time));
  CHECK_FALSE(serve(longest, policy, {all, {64, 1}}, step_time));
}

TEST_CASE("rigcast keeps windows of many users apart, and plans what is left for the others",
          "[serving]") {
  const Settings gemma = {{"runtime.name", "rigcast"},      {"model.name", "gemma-3-12b"},
                          {"model.quant", "Q4_K_M"},        {"load.users", "4"},
                          {"scheduler.max_sequences", "8"}, {"placement.gpu_layers", "49"},
                          {"workload.context", "32768"}};
  const auto kv_of = [](const Scenario& s) {
    const Placement placement = resolve_placement(s);
    double kv = 0;
    for (const DeviceMemory& d : plan_memory(s, placement, s.workload.context).devices)
      kv += d.kv.value;
    return kv;
  };
  for (const char* gpu : {"[]", "[\"rtx-3090\"]"}) {
    CAPTURE(gpu);
    const Settings pool = with(gemma, {{"rig.gpu", gpu}, {"scheduler.pool_tokens", "65536"}});
    const Scenario s = scenario(pool);
    // At most 1,023 tokens before a step lie in 32 blocks of 32 and two more, of each of eight
    // sequences; a step's 512 in 16; each of eight checkpoints has 32.
    const TokenCount windows = 16 + 8 * 34 + 8 * 32;
    double all = 0, window = 0;
    for (int l = 0; l < s.model.layers; ++l)
      (s.model.sees_all_tokens(l) ? all : window) += kv_bytes_per_token(s.model, l, s.kv.types);
    const double lists = std::string(gpu) == "[]" ? 0 : 2 * 65536 * 8;
    CHECK(kv_of(s) == Approx(65536 * all + double(windows * 32) * window + lists));
    CHECK(room_of(s).tokens == 65536);
    // Blocks in RAM are of all layers, and so is a pool that is no larger than that of windows.
    const Scenario tier = scenario(with(pool, {{"scheduler.ram_cache", "\"1 GiB\""}}));
    CHECK(kv_of(tier) > 65536 * (all + window));
    CHECK(room_of(tier).tokens == 65536);
    const Scenario small =
        scenario(with(pool, {{"workload.context", "2048"}, {"scheduler.pool_tokens", "16384"}}));
    CHECK(kv_of(small) == Approx(16384 * (all + window) + lists / 2));
    CHECK(room_of(small).tokens == 16384);
  }
  // All that VRAM has room for.
  const Settings open = with(gemma, {{"rig.gpu", "[\"rtx-3090\"]"}});
  const Scenario together = scenario(with(open, {{"scheduler.ram_cache", "\"1 GiB\""}}));
  CHECK(double(room_of(scenario(open)).tokens) > 2.0 * double(room_of(together).tokens));
}

TEST_CASE("A cache in RAM makes no pool larger, wherever the pool is", "[serving]") {
  const Settings users = {{"runtime.name", "rigcast"}, {"load.users", "2"}};
  const Settings cpu = with(users, {{"rig.gpu", "[]"}});
  const Settings ram = with(users, {{"rig.gpu", "[\"rtx-3090\"]"}, {"kv.policy", "ram"}});
  const Settings vram = with(users, {{"rig.gpu", "[\"rtx-3090\"]"}});
  for (const Settings& pool : {cpu, ram, vram}) {
    const Settings stated = with(pool, {{"scheduler.pool_tokens", "16384"}});
    CHECK(room_of(scenario(stated)).tokens == 16384);
    CHECK(room_of(scenario(with(stated, {{"scheduler.ram_cache", "\"1 GiB\""}}))).tokens == 16384);
  }
}

TEST_CASE("Without a GPU a pool has half of what weights leave of RAM", "[serving]") {
  const auto tokens = [](const char* ram, const Settings& more) {
    const Settings base = {{"runtime.name", "rigcast"},   {"rig.gpu", "[]"},
                           {"placement.gpu_layers", "0"}, {"load.users", "2"},
                           {"rig.ram_reserved", "0 GiB"}, {"rig.ram_capacity", ram}};
    return room_of(scenario(with(base, more))).tokens;
  };
  const Scenario s = scenario({{"runtime.name", "rigcast"}, {"load.users", "2"}});
  const double token = kv_bytes_per_token(s.model, s.kv.types);
  const double left = 16 * 0x1p30 - double(s.tensors.bytes());
  const double half = left / 2 / token;
  CHECK(double(tokens("16 GiB", {})) <= half);
  CHECK(double(tokens("16 GiB", {})) > half - double(s.kv.block_tokens));
  // No more than all that may run need, and no less than one request.
  const TokenCount context = s.workload.context;
  CHECK(tokens("256 GiB", {}) == context * TokenCount(s.scheduler->sequences));
  CHECK(tokens("6 GiB", {}) == context);
  // Who states it has as much.
  CHECK(tokens("16 GiB", {{"scheduler.pool_tokens", "8192"}}) == 8192);
}
