// Weights that RAM cannot hold, in closed form.
#include "perfmodel/page_in.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "perfmodel/mean_turn.hpp"
#include "perfmodel/memory.hpp"
#include "perfmodel/pressure/paging_time.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "perfmodel/serial_time.hpp"
#include "sim/simulate.hpp"
#include "tests/catch.hpp"
#include "tests/sim/scenario_fixtures.hpp"

using namespace rigcast;
using fixtures::scenario;
using fixtures::Settings;

namespace {

struct Planned {
  explicit Planned(const Settings& settings)
      : s(scenario(settings)),
        placement(resolve_placement(s)),
        memory(plan_memory(s, placement, s.workload.context)) {}
  Bytes page_in(TokenCount tokens) const {
    return rigcast::page_in(s, placement, memory, Batch(0, tokens)).files;
  }

  Scenario s;
  Placement placement;
  MemoryPlan memory;
};

Settings on_cpu(const std::string& model, double ram_bytes) {
  return {{"model.name", model},
          {"placement.gpu_layers", "0"},
          {"rig.gpu", "[]"},
          {"rig.ram_reserved", "0 GiB"},
          {"rig.ram_capacity", std::to_string(std::uint64_t(ram_bytes)) + " B"}};
}

// What the host needs with RAM to spare.
double needed(const std::string& model) {
  return Planned(on_cpu(model, 1e12)).memory.devices.back().needed().value;
}

}  // namespace

TEST_CASE("A dense model that is a page larger than RAM is read whole for every token",
          "[page_in]") {
  const double all = needed("llama-3.1-8b");
  const Planned fits(on_cpu("llama-3.1-8b", all)), lacks(on_cpu("llama-3.1-8b", all - 4096));
  CHECK(fits.memory.outside_ram.value == 0);
  CHECK(fits.page_in(1).value == 0);
  CHECK(lacks.memory.outside_ram.value == 4096);
  CHECK(lacks.memory.fits());
  // All but the embedding, of which a token needs a row.
  const double layers = double(lacks.s.tensors.bytes() - lacks.s.tensors.embedding.bytes());
  CHECK(lacks.page_in(1).value == layers);
  CHECK(lacks.page_in(512).value == layers);
}

TEST_CASE("Of experts, the share is read that RAM does not hold, and all of it in a batch",
          "[page_in]") {
  const double all = needed("qwen3-30b-a3b");
  const Planned p(on_cpu("qwen3-30b-a3b", all - 4e9));
  CHECK(p.memory.outside_ram.value == Approx(4e9));
  double experts = 0;
  for (const LayerWeights& w : p.s.tensors.layers) experts += double(w.ffn_or_experts());
  CHECK(p.page_in(1).value == Approx(experts * 8 / 128 * 4e9 / experts).epsilon(1e-6));
  // 512 tokens choose nearly all experts, more than RAM holds.
  const double chosen = 1 - std::pow(1 - 8.0 / 128, 512);
  const double rest = double(p.s.tensors.bytes() - p.s.tensors.embedding.bytes()) - experts;
  CHECK(p.page_in(512).value == Approx(rest + experts * chosen).epsilon(1e-6));
}

TEST_CASE("What is read from the disk takes its time, in closed form and in the simulator",
          "[page_in]") {
  const double all = needed("llama-3.1-8b");
  const auto token = [&](double ram) {
    const Scenario s = scenario(on_cpu("llama-3.1-8b", ram));
    return SerialForecast(s).token(600).value;
  };
  const Planned lacks(on_cpu("llama-3.1-8b", all - 1e9));
  const double read = (lacks.page_in(1) / file_read_rate(lacks.s)).value;
  CHECK(file_read_rate(lacks.s) == lacks.s.rig.ssd.sequential_read.value * 0.8);
  CHECK(token(all - 1e9) - token(all) == Approx(read).epsilon(1e-6));
  const auto shared = std::make_shared<const Scenario>(lacks.s);
  const Report r = sim::simulate(shared, {});
  CHECK(r.tpot.mean.value == Approx(SerialForecast(lacks.s).mean_token().value).epsilon(1e-3));
  CHECK(r.decode_bound.resource == Resource::kSsd);
  CHECK(r.traffic_bytes[std::size_t(Resource::kSsd)] ==
        Approx(lacks.page_in(1).value * double(lacks.s.workload.output_tokens)).epsilon(1e-6));
}

TEST_CASE("A file that RAM cannot hold has no warm start", "[page_in]") {
  const double all = needed("llama-3.1-8b");
  const auto start = [](double ram) {
    return sim::simulate(std::make_shared<const Scenario>(scenario(on_cpu("llama-3.1-8b", ram))),
                         {});
  };
  // Pages of the file beside the copies for this CPU that were made of them.
  const Report fits = start(2.1 * all), lacks = start(all - 1e9);
  CHECK(fits.warm);
  CHECK_FALSE(lacks.warm);
  REQUIRE(lacks.ttft());
  CHECK(lacks.ttft()->load == lacks.cold->load);
  CHECK(lacks.cold->load.value > 0);
}

TEST_CASE("A runtime that copies its weights needs RAM for all of them", "[page_in]") {
  const double all = needed("llama-3.1-8b");
  Settings settings = on_cpu("llama-3.1-8b", all - 1e9);
  settings.emplace_back("runtime.mmap", "false");
  CHECK_FALSE(Planned(settings).memory.fits());
}

TEST_CASE("A limit counts as RAM does, and swap takes what weights leave no room for",
          "[page_in][pressure]") {
  // The other runtimes' repacked weights are no pages of the file.
  const Settings base = fixtures::with(on_cpu("llama-3.1-8b", 64e9), {{"runtime.name", "rigcast"}});
  const auto with_memory = [&](const Settings& memory) {
    return Planned(fixtures::with(base, memory));
  };
  const Planned alone(base);
  const double needs = alone.memory.devices.back().needed().value;
  const auto limit = [&](double bytes) { return fmt::format("{:.0f} B", bytes); };
  const Planned fits = with_memory({{"memory.limit", limit(needs)}});
  CHECK(fits.memory.outside_ram.value == Approx(0).margin(1));
  CHECK(fits.memory.fits());
  const Planned lacks = with_memory({{"memory.limit", limit(needs - 1e9)}});
  CHECK(lacks.memory.outside_ram.value == Approx(1e9));
  const double weights = alone.memory.devices.back().weights.value;
  // All weights may leave, and then the cache, as far as there is swap.
  const Planned swaps =
      with_memory({{"memory.limit", limit(needs - weights - 1e8)}, {"memory.swap", "1 GB"}});
  CHECK(swaps.memory.fits());
  CHECK(swaps.memory.swapped.value >= 1e8);
  CHECK_FALSE(with_memory({{"memory.limit", limit(needs - weights - 1e8)}}).memory.fits());
}

TEST_CASE("Under pressure a token takes as long as its reads and its faults",
          "[page_in][pressure]") {
  const Settings settings =
      fixtures::with(on_cpu("llama-3.1-8b", 64e9), {{"memory.limit", "5 GiB"},
                                                    {"memory.swap", "8 GiB"},
                                                    {"memory.swappiness", "100"},
                                                    {"workload.depth", "4096"}});
  Scenario free = scenario(settings), pressed = free;
  free.memory.reset();
  const Report a = sim::simulate(std::make_shared<const Scenario>(free), {});
  const Report b = sim::simulate(std::make_shared<const Scenario>(pressed), {});
  REQUIRE(b.paging);
  CHECK_FALSE(a.paging);
  CHECK(b.paging->reclaim == "both");
  const double more = 1 / b.decode_tokens_per_s - 1 / a.decode_tokens_per_s;
  const double expected = (b.paging->disk / file_read_rate(pressed)).value +
                          swap_in_time(pressed, b.paging->swap).value;
  CHECK(more == Approx(expected).epsilon(0.02));  // the middle token's, of all
  REQUIRE(b.tokens_per_s_interval);
  CHECK(b.tokens_per_s_interval->lo < b.decode_tokens_per_s);
  CHECK(b.tokens_per_s_interval->hi > b.decode_tokens_per_s);
}

TEST_CASE("A fault reads as many pages as the system is set to", "[page_in][pressure]") {
  Scenario s = scenario(fixtures::with(on_cpu("llama-3.1-8b", 64e9), {{"memory.swap", "8 GiB"}}));
  const Seconds eight = swap_in_time(s, 1_GiB);
  s.memory->page_cluster = 4;
  const Seconds sixteen = swap_in_time(s, 1_GiB);
  const Seconds rate = 1_GiB / s.rig.ssd.sequential_read.value;
  // Twice the pages: half the faults, the same bytes, and as many pages to be freed.
  const Seconds freed = Seconds{50e-6} * (1_GiB / 32_KiB);
  CHECK((eight - rate - freed).value == Approx(2 * (sixteen - rate - freed).value));
}

TEST_CASE("What others take at the beginning counts for the first answer, too",
          "[page_in][pressure]") {
  const Settings settings = fixtures::with(
      on_cpu("llama-3.1-8b", 64e9), {{"runtime.name", "rigcast"}, {"memory.limit", "8 GiB"}});
  const auto pressed = [&](const TimelineEntry& first) {
    Scenario s = scenario(settings);
    s.memory->timeline = {first};
    return *sim::simulate(std::make_shared<const Scenario>(std::move(s)), {}).paging;
  };
  CHECK(pressed({}).reclaim == "fits");
  TimelineEntry other;
  other.other = 6_GiB;  // in the same group
  CHECK(pressed(other).reclaim == "files");
}

TEST_CASE("Files that others read once take their rate of the disk, and no more than half",
          "[page_in][pressure]") {
  const Scenario s = scenario(on_cpu("llama-3.1-8b", 64e9));
  const BytesPerSecond alone = file_read_rate(s), disk = s.rig.ssd.sequential_read.value;
  CHECK(file_read_rate(s, disk * 0.25).value == Approx(0.75 * alone.value));
  CHECK(file_read_rate(s, disk * 4).value == Approx(0.5 * alone.value));
}

TEST_CASE("What neither memory nor swap has room for does not run", "[page_in][pressure]") {
  const Settings settings = fixtures::with(on_cpu("llama-3.1-8b", 16e9),
                                           {{"runtime.name", "rigcast"}, {"memory.swap", "8 GiB"}});
  const auto report = [&](Bytes other, const Settings& more) {
    Scenario s = scenario(fixtures::with(settings, more));
    TimelineEntry first;
    first.other = other;
    s.memory->timeline = {first};
    return sim::simulate(std::make_shared<const Scenario>(std::move(s)), {});
  };
  CHECK(report(12_GiB, {}).fits);
  const Report full = report(40_GiB, {});
  CHECK_FALSE(full.fits);
  REQUIRE(full.memory.shortest());
  CHECK(full.memory.shortest()->device == "host");
  // Of a group that never swaps, the cache has to fit beside what else is no file.
  const Settings never = {{"memory.limit", "400 MiB"}, {"workload.depth", "7000"}};
  CHECK(report({}, fixtures::with(never, {{"memory.swappiness", "60"}})).fits);
  CHECK_FALSE(report({}, fixtures::with(never, {{"memory.swappiness", "0"}})).fits);
}

TEST_CASE("A limit gives no more room than RAM has", "[page_in][pressure]") {
  const Settings base = fixtures::with(on_cpu("llama-3.1-8b", 16e9), {{"runtime.name", "rigcast"}});
  const auto room = [&](const Settings& memory) {
    const Planned p(fixtures::with(base, memory));
    return host_pools(p.s, p.placement, p.memory, Batch(0, 1)).room;
  };
  const Bytes all = room({{"memory.swap", "1 GiB"}});
  CHECK(all < Bytes{16e9});
  CHECK(room({{"memory.limit", "16000000000 B"}}) == all);
  CHECK(room({{"memory.limit", "8 GiB"}}) == 8_GiB);
}

TEST_CASE("Other programs' memory is in use from the start, beside what the rig reserves",
          "[page_in][pressure]") {
  Scenario s = scenario(fixtures::with(on_cpu("llama-3.1-8b", 64e9),
                                       {{"runtime.name", "rigcast"}, {"memory.swap", "1 GiB"}}));
  const Placement placement = resolve_placement(s);
  const DeviceMemory alone = plan_memory(s, placement, 100).devices.back();
  const HostPools pools = host_pools(s, placement, plan_memory(s, placement, 100), Batch(100, 1));
  TimelineEntry first;
  first.other = 6_GiB;
  s.memory->timeline = {first};
  const MemoryPlan beside = plan_memory(s, placement, 100);
  CHECK(beside.devices.back().overhead == alone.overhead + 6_GiB);
  CHECK(beside.devices.back().free() == alone.free() - 6_GiB);
  // They are one of the pools, and not lacking from the room for all of them besides.
  const HostPools shared = host_pools(s, placement, beside, Batch(100, 1), &first);
  CHECK(shared.room == pools.room);
  CHECK(shared.locked == pools.locked + 6_GiB);
}

TEST_CASE(
    "Copies of weights are swapped where the kernel may take them, and the program is ended "
    "where it may not",
    "[page_in][pressure]") {
  const Settings own = {
      {"runtime.name", "rigcast"}, {"runtime.mmap", "false"}, {"memory.swap", "16 GiB"}};
  const Planned free(fixtures::with(on_cpu("llama-3.1-8b", 64e9), own));
  const double all = free.memory.devices.back().needed().value;
  const Settings copies = fixtures::with(on_cpu("llama-3.1-8b", all - 1e9), own);
  const auto report = [&](const Settings& more) {
    return sim::simulate(std::make_shared<const Scenario>(scenario(fixtures::with(copies, more))),
                         {});
  };
  const Report swapped = report({});
  REQUIRE(swapped.fits);
  REQUIRE(swapped.paging);
  CHECK(swapped.paging->reclaim == "swap");
  CHECK(swapped.paging->disk.value == 0);
  // At least what has no room, at most all that a token needs.
  const Scenario& s = *swapped.scenario;
  const double used = double(s.tensors.bytes() - s.tensors.embedding.bytes());
  CHECK(swapped.paging->swap.value > 0.25 * used);
  CHECK(swapped.paging->swap.value < 1.2 * used);
  const Report group = report({{"memory.limit", fmt::format("{:.0f} B", all - 2e9)}});
  CHECK_FALSE(group.fits);
  REQUIRE_FALSE(group.errors.empty());
  CHECK(group.errors.front().find("a control group without files") != std::string::npos);
  CHECK_FALSE(report({{"memory.swap", "0 B"}}).fits);
}

TEST_CASE("An answer that runs out of memory is as slow as its parts, and says where",
          "[page_in][pressure]") {
  const auto report = [](TokenCount prompt, TokenCount output) {
    // The last megabytes of the limit are full within the answer.
    const Settings settings = fixtures::with(
        on_cpu("llama-3.1-8b", 64e9), {{"runtime.name", "rigcast"},
                                       {"memory.limit", "5 GiB"},
                                       {"memory.swap", "8 GiB"},
                                       {"workload.context", "8192"},
                                       {"workload.prompt_tokens", fmt::format("{}", prompt)},
                                       {"workload.output_tokens", fmt::format("{}", output)}});
    return sim::simulate(std::make_shared<const Scenario>(scenario(settings)), {});
  };
  const Report short_one = report(512, 64);
  REQUIRE(short_one.paging);
  REQUIRE(short_one.paging->from_tokens);  // within the context, though not of this answer
  CHECK(short_one.paging->swap.value == 0);
  const TokenCount from = *short_one.paging->from_tokens;
  REQUIRE(from > 1000);
  // A third of the answer is short of memory.
  const Report r = report(from - 201, 301);
  REQUIRE(r.paging);
  CHECK(*r.paging->from_tokens == from);
  CHECK(r.paging->disk.value > 0);
  const double free = 1 / report(from - 401, 101).decode_tokens_per_s;
  const double pressed = 1 / report(from, 101).decode_tokens_per_s;
  CHECK(1 / r.decode_tokens_per_s == Approx((2 * free + pressed) / 3).epsilon(0.03));
  CHECK(r.decode_bound.resource == Resource::kSsd);
  CHECK(r.traffic_bytes[std::size_t(Resource::kSsd)] ==
        Approx((r.paging->disk + r.paging->swap).value * 100).epsilon(0.03));
  // The bytes that it may swap are uncertain by far more than the processor's rate.
  REQUIRE(r.tokens_per_s_interval);
  CHECK(r.tokens_per_s_interval->hi / r.tokens_per_s_interval->lo > 1.5);
}

TEST_CASE("A step of speed where RAM is full names what comes back", "[page_in][pressure]") {
  const Settings settings = fixtures::with(
      on_cpu("llama-3.1-8b", 64e9),
      {{"runtime.name", "rigcast"}, {"memory.limit", "5 GiB"}, {"workload.context", "8192"}});
  const Report r = sim::simulate(std::make_shared<const Scenario>(scenario(settings)), {});
  const auto step =
      std::ranges::find_if(r.cliffs, [](const Cliff& c) { return c.axis == CliffAxis::kPosition; });
  REQUIRE(step != r.cliffs.end());
  CHECK(step->tier == Tier::kRam);
  CHECK(step->cause.find("weights are read from the disk again") != std::string::npos);
  CHECK(std::abs(step->at_tokens - *r.paging->from_tokens) <= 256);
}
