// Plans for a load: settings, machines, and the order of machines side by side.
#include "planner/load_plan/load_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/load_plan/load_plan_text.hpp"
#include "planner/load_plan/rig_loads.hpp"
#include "planner/load_plan/way_commands.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/sim/scenario_fixtures.hpp"

using namespace rigcast;
using namespace rigcast::planner;

namespace {

// A server whose users are a function of its scenario, at the ends of the interval four fifths and
// five fourths of them.
MakeServer serving(std::function<double(const Scenario&)> users) {
  return [users](std::shared_ptr<const Scenario> s) -> Result<ServerForecast> {
    const double most = users(*s);
    if (most < 0) return Error{ErrorKind::kDoesNotFit, "too large"};
    const auto serve = [](double limit) -> ServeLoad {
      return [limit](const Load& load) -> Result<ServingFigures> {
        ServingFigures f;
        const double amount = load.is_open() ? load.rate : double(load.users);
        f.most_of_limit = amount / std::max(limit, 1e-9);
        if (amount > limit) f.broken = "TTFT p95";
        return f;
      };
    };
    return ServerForecast{serve(most), serve(0.8 * most), serve(1.25 * most)};
  };
}

Scenario with_users(int users, const fixtures::Settings& more = {}) {
  fixtures::Settings settings = {{"load.preset", "chat"},
                                 {"workload.users", std::to_string(users)},
                                 {"placement.gpu_layers", "\"auto\""},
                                 {"workload.context", "2048"}};
  const char* base = R"(
    [rig]
    gpu = ["rtx-4090"]
    [model]
    name = "llama-3.1-8b"
    [workload]
    output_tokens = 128
  )";
  return fixtures::scenario(fixtures::with(settings, more), base);
}

QualityTable quality() {
  auto read = QualityTable::read(std::filesystem::path(test::source_dir()) / "models" / "quality");
  REQUIRE(read);
  return *std::move(read);
}

double near(double value, double best) { return std::abs(std::log2(value / best)); }

}  // namespace

TEST_CASE("The settings of a way are a peak", "[load_plan]") {
  // 100 users with 8 slots and ubatches of 1,024, a tenth fewer for each step away.
  const auto users = [](const Scenario& s) {
    return 100 * std::pow(0.9, near(double(s.scheduler->sequences), 8) +
                                   near(double(s.settings.ubatch), 1024));
  };
  const Scenario s = with_users(500);
  const auto way = find_way(s, {.budget = true}, false, serving(users), 0);
  REQUIRE(way);
  REQUIRE(*way);
  CHECK((*way)->scenario->scheduler->sequences == 8);
  CHECK((*way)->scenario->settings.ubatch == 1024);
  CHECK((*way)->capacity.most == 100);
  // What is stated stays.
  const auto fixed = find_way(s, {true, true, true}, false, serving(users), 0);
  REQUIRE((fixed && *fixed));
  CHECK((*fixed)->scenario->scheduler->sequences == s.scheduler->sequences);
  CHECK((*fixed)->scenario->settings.ubatch == s.settings.ubatch);
  const auto none = find_way(s, {}, false, serving([](const Scenario&) { return -1.0; }), 0);
  REQUIRE(none);
  CHECK_FALSE(*none);
}

TEST_CASE("Machines are the load over what one serves, and share it evenly", "[load_plan]") {
  ServedWay way;
  way.scenario = std::make_shared<const Scenario>(with_users(500));
  way.servers = 2;
  way.capacity.most = 40;
  way.lowest = 32;
  way.highest = 50;
  const MakeServer server = serving([](const Scenario&) { return 40.0; });
  const auto fleet = fleet_for(500, way, server);
  REQUIRE((fleet && *fleet));
  CHECK((*fleet)->machines == 7);  // 500 / 80
  CHECK((*fleet)->at_best == 5);
  CHECK((*fleet)->at_least == 8);
  CHECK((*fleet)->share == 36);  // of 14 servers
  CHECK((*fleet)->figures.meets_slo());
  // A share that is not met takes a machine more: here 35 users are served, 40 were found.
  const auto chance = fleet_for(500, way, serving([](const Scenario&) { return 35.0; }));
  REQUIRE((chance && *chance));
  CHECK((*chance)->machines == 8);
  CHECK((*chance)->by_capacity == 7);
  CHECK((*chance)->share_by_capacity == 36);
  CHECK((*chance)->share == 32);
  // As many as the interval allows are no fewer than those of the forecast.
  CHECK((*chance)->at_best == 5);
  CHECK((*chance)->at_least == 8);
  CHECK(added_text(way, **chance) ==
        "8 machines instead of 7: one machine serves up to 80 users, but with 36 users on each GPU "
        "TTFT p95 breaks by chance");
  CHECK(added_text(way, **fleet).empty());
  // Where no share is met, the machines are those that were simulated.
  const auto never = fleet_for(500, way, serving([](const Scenario&) { return 1.0; }));
  REQUIRE((never && *never));
  CHECK((*never)->machines == 14);
  CHECK((*never)->share == 18);  // of 28 servers
  CHECK_FALSE((*never)->figures.meets_slo());
  way.capacity.most = 0;
  CHECK_FALSE(*fleet_for(500, way, server));
}

TEST_CASE("The best way has the fewest machines, with those that chance adds", "[load_plan]") {
  const auto way = [](double most, int slots) {
    Scenario s = with_users(100);
    s.scheduler->sequences = std::size_t(slots);
    ServedWay w;
    w.scenario = std::make_shared<const Scenario>(std::move(s));
    w.capacity.most = most;
    return w;
  };
  // With 8 slots 120 users were found, of which 100 break a limit.
  const MakeServer server =
      serving([](const Scenario& s) { return s.scheduler->sequences == 8 ? 90.0 : 110.0; });
  const auto best = best_of(100, {way(120, 8), way(110, 16), way(105, 32)}, server);
  REQUIRE((best && *best));
  CHECK((*best)->way.scenario->scheduler->sequences == 16);
  CHECK((*best)->fleet->machines == 1);
  const auto alone = best_of(100, {way(120, 8)}, server);
  REQUIRE((alone && *alone));
  CHECK((*alone)->fleet->machines == 2);
  const auto none = best_of(100, {way(0, 8)}, server);
  REQUIRE((none && *none));
  CHECK_FALSE((*none)->fleet);
  CHECK_FALSE(*best_of(100, {}, server));
}

TEST_CASE("A plan's order counts the machines that chance adds", "[load_plan]") {
  // The mix with the least loss serves 60 users and not 50; the others serve all that they are
  // found to.
  std::string first;
  const MakeServer odd = [&first](std::shared_ptr<const Scenario> s) -> Result<ServerForecast> {
    if (first.empty()) first = s->quant;
    const bool is_odd = s->quant == first;
    const ServeLoad serve = [is_odd](const Load& load) -> Result<ServingFigures> {
      ServingFigures f;
      if (load.users > 60 || (is_odd && load.users == 50)) f.broken = "TTFT p95";
      f.most_of_limit = load.users / 60.0;
      return f;
    };
    return ServerForecast{serve, serve, serve};
  };
  const Scenario s = with_users(50);
  LoadSearch search{full_space(s), {true, true, true}, 0.05, false, {}, {}};
  const auto plan = plan_load(s, search, quality(), odd);
  REQUIRE(plan);
  REQUIRE(plan->choices.size() > 1);
  CHECK(plan->choices.front().way.scenario->quant != first);
  CHECK(plan->choices.front().fleet->machines == 1);
  for (const LoadChoice& c : plan->choices)
    if (c.way.scenario->quant == first) CHECK(c.fleet->machines == 2);
}

TEST_CASE("The fewest machines come first, then the least loss", "[load_plan]") {
  // The smaller the weights, the more users; all within the loss are as good for 30 of them.
  const auto users = [](const Scenario& s) { return 4e11 / double(s.tensors.bytes()); };
  const auto plan_for = [&](int count) {
    const Scenario s = with_users(count);
    LoadSearch search{full_space(s), {true, true, true}, 0.05, false, {}, {}};
    auto plan = plan_load(s, search, quality(), serving(users));
    REQUIRE(plan);
    REQUIRE(plan->choices.size() > 2);
    return *std::move(plan);
  };
  const LoadPlan few = plan_for(30), many = plan_for(2000);
  const auto loss = [](const LoadPlan& plan) { return plan.choices.front().way.loss.nats; };
  CHECK(few.choices.front().fleet->machines == 1);
  for (const LoadChoice& c : few.choices) {
    CHECK(loss(few) <= c.way.loss.nats);
    CHECK(c.way.loss.nats <= 0.05);
  }
  CHECK(loss(many) > loss(few));
  for (const LoadChoice& c : many.choices)
    CHECK(many.choices.front().fleet->machines <= c.fleet->machines);
}

TEST_CASE("GPUs that are alike take a server each, with a share of the RAM", "[load_plan]") {
  const Scenario two = with_users(40, {{"rig.gpu", "[\"rtx-3090\", \"rtx-3090\"]"}});
  CHECK(takes_copies(two.rig));
  const Rig one = with_one_gpu(two.rig);
  CHECK(one.gpus.size() == 1);
  CHECK(one.links.size() == 1);
  CHECK(one.ram.capacity.value * 2.0 == two.rig.ram.capacity.value);
  CHECK_FALSE(takes_copies(with_users(40).rig));
  CHECK_FALSE(takes_copies(with_users(40, {{"rig.gpu", "[\"rtx-3090\", \"rtx-4090\"]"}}).rig));
  const auto users = [](const Scenario& s) { return s.rig.gpus.size() == 1 ? 30.0 : 50.0; };
  LoadSearch search{full_space(two), {true, true, true}, 0.05, true, {}, {}};
  const auto ways = find_ways(two, search, quality(), serving(users), nullptr);
  REQUIRE(ways);
  const auto best = std::ranges::max_element(*ways, {}, &ServedWay::most);
  CHECK(best->use == GpuUse::kCopies);
  CHECK(best->most() == 60);
}

TEST_CASE("A copy on each GPU is a server for one GPU each", "[load_plan]") {
  const auto copies_of = [](const Scenario& together, std::optional<ServerCopies> copies) {
    LoadSearch search{full_space(together), {true, true, true}, std::nullopt, true, {}, {}};
    search.space.quants = {together.quant};
    search.space.kv_types = {together.kv.types};
    search.copies = std::move(copies);
    auto ways = find_ways(together, search, quality(), serving([](const Scenario&) { return 9.; }),
                          nullptr);
    REQUIRE(ways);
    const auto way = std::ranges::find(*ways, GpuUse::kCopies, &ServedWay::use);
    REQUIRE(way != ways->end());
    return *way;
  };
  // GPUs that share every layer are one in the rig: a copy has a scenario of its own.
  const auto paged = [&](const char* runtime, const char* gpu) {
    const auto on = [&](const std::string& gpus) {
      return with_users(40,
                        {{"rig.gpu", gpus}, {"runtime.name", runtime}, {"model.quant", "BF16"}});
    };
    const std::string one = fmt::format("\"{}\"", gpu);
    const Scenario together = on(fmt::format("[{0}, {0}]", one));
    CHECK(together.placement.groups.tensor == 2);
    const ServedWay way = copies_of(together, ServerCopies{on("[" + one + "]"), 2});
    CHECK(way.scenario->placement.groups.tensor == 1);
    return commands_of(way);
  };
  const auto is = [](const std::string& command, const char* begin, const char* end) {
    INFO(command);
    CHECK(command.starts_with(begin));
    CHECK(command.ends_with(end));
    CHECK(command.find("tensor-parallel") == std::string::npos);
    CHECK(command.find("--tp-size") == std::string::npos);
  };
  const auto vllm = paged("vllm", "rtx-4090");
  REQUIRE(vllm.size() == 2);
  is(vllm[0], "CUDA_VISIBLE_DEVICES=0 vllm serve ", " --port 8000");
  is(vllm[1], "CUDA_VISIBLE_DEVICES=1 vllm serve ", " --port 8001");
  const auto sglang = paged("sglang", "rtx-4090");
  REQUIRE(sglang.size() == 2);
  is(sglang[1], "CUDA_VISIBLE_DEVICES=1 python3 -m sglang.launch_server ", " --port 30001");
  const auto slots = [&](const char* gpus, const fixtures::Settings& more = {}) {
    const auto two = fixtures::with({{"rig.gpu", gpus}}, more);
    return commands_of(copies_of(with_users(40, two), std::nullopt));
  };
  const auto nvidia = slots("[\"rtx-3090\", \"rtx-3090\"]");
  REQUIRE(nvidia.size() == 2);
  is(nvidia[0], "CUDA_VISIBLE_DEVICES=0 llama-server ", " --port 8080");
  is(nvidia[1], "CUDA_VISIBLE_DEVICES=1 llama-server ", " --port 8081");
  const char* amd = "[\"rx-7900-xtx\", \"rx-7900-xtx\"]";
  is(slots(amd, {{"runtime.backend", "rocm"}})[1], "HIP_VISIBLE_DEVICES=1 llama-server ",
     " --port 8081");
  is(slots(amd, {{"runtime.backend", "vulkan"}})[1], "GGML_VK_VISIBLE_DEVICES=1 llama-server ",
     " --port 8081");
  is(slots("[\"arc-a770-16gb\", \"arc-a770-16gb\"]", {{"runtime.backend", "sycl"}})[1],
     "ONEAPI_DEVICE_SELECTOR=level_zero:1 llama-server ", " --port 8081");
  // One server has no port of its own, and sees all GPUs.
  ServedWay together;
  together.scenario = std::make_shared<const Scenario>(with_users(40));
  REQUIRE(commands_of(together).size() == 1);
  CHECK(commands_of(together)[0].starts_with("llama-server "));
  CHECK(commands_of(together)[0].find("--port") == std::string::npos);
}

TEST_CASE("Of machines side by side the cheapest that serves comes first", "[load_plan]") {
  const auto rig = [](const char* name, std::optional<double> usd, double most, double machines) {
    RigLoad r;
    r.name = name;
    r.price.usd = usd;
    r.way.emplace();
    r.way->capacity.most = most;
    if (most > 0) r.fleet.emplace().machines = machines;
    return r;
  };
  RigLoads loads;
  loads.amount = 100;
  loads.rigs = {rig("unpriced", std::nullopt, 200, 1), rig("dear", 5000, 100, 1),
                rig("nobody", 10, 0, 0), rig("cheap", 1000, 40, 3)};
  rank(loads);
  CHECK(loads.rigs[0].name == "cheap");
  CHECK(loads.rigs[0].usd() == 3000);
  CHECK(loads.rigs[0].usd_each(100) == 30);
  CHECK(loads.rigs[1].name == "dear");
  CHECK(loads.rigs[2].name == "unpriced");
  CHECK(loads.rigs[3].name == "nobody");
  loads.budget = 2000;
  CHECK_FALSE(qualifies(loads, loads.rigs[0]));
  CHECK(verdict_text(loads).find("nothing for 2000 USD") == 0);
}

TEST_CASE("Of new parts for a rig the cheapest with which it serves alone comes first",
          "[load_plan]") {
  const auto rig = [](const char* name, std::optional<double> usd, double most) {
    RigLoad r;
    r.name = name;
    r.price.usd = usd;
    r.way.emplace();
    r.way->capacity.most = most;
    r.fleet.emplace().machines = std::ceil(100 / most);
    return r;
  };
  RigLoads loads;
  loads.what = Comparison::What::kUpgrades;
  loads.amount = 100;
  loads.rigs = {rig("as it is", std::nullopt, 60),  rig("no gain", 100, 61),
                rig("too little", 300, 90),         rig("dear", 2000, 150),
                rig("unpriced", std::nullopt, 300), rig("cheap", 1000, 120)};
  rank(loads);
  REQUIRE(loads.rigs.size() == 5);
  CHECK(loads.rigs[0].name == "as it is");
  CHECK(loads.rigs[1].name == "cheap");
  CHECK(loads.rigs[2].name == "dear");
  CHECK(loads.rigs[3].name == "unpriced");
  CHECK(loads.rigs[4].name == "too little");
  CHECK(usd_each_of(loads, loads.rigs[1]) == 10);
  CHECK_FALSE(usd_each_of(loads, loads.rigs[4]));
  CHECK(verdict_text(loads).find("cheapest: with cheap for 1,000 USD it serves 100 users") == 0);
  loads.budget = 500;
  rank(loads);
  CHECK(verdict_text(loads).find("no single part for 500 USD") == 0);
  loads.rigs[0] = rig("as it is", std::nullopt, 100);
  CHECK(verdict_text(loads) == "the rig as it is serves 100 users");
}

TEST_CASE("A part that lost its place by chance says so", "[load_plan]") {
  const auto rig = [](const char* name, double usd, double most, double by_capacity,
                      double machines) {
    RigLoad r;
    r.name = name;
    r.price.usd = usd;
    r.way.emplace();
    r.way->scenario = std::make_shared<const Scenario>(with_users(100));
    r.way->capacity.most = most;
    Fleet& fleet = r.fleet.emplace();
    fleet.machines = machines;
    fleet.by_capacity = by_capacity;
    fleet.share_by_capacity = std::ceil(100 / by_capacity);
    if (machines > by_capacity) fleet.broken_by_chance = "TTFT p95";
    return r;
  };
  RigLoads loads;
  loads.amount = 100;
  loads.rigs = {rig("odd", 600, 120, 1, 2), rig("even", 1000, 105, 1, 1)};
  rank(loads);
  REQUIRE(loads.rigs.front().name == "even");  // 1,000 USD against 1,200
  CHECK(added_text(loads, loads.rigs[0]).empty());
  const std::string why =
      "odd: 2 machines instead of 1: one serves up to 120 users, but with 100 users TTFT p95 "
      "breaks "
      "by chance";
  CHECK(added_text(loads, loads.rigs[1]) ==
        why + "; without, it would be cheaper than even: 600 USD");
  CHECK(to_text({loads}, {}, {false, 400}).find(why) != std::string::npos);
  // A dearer one has no place to lose.
  loads.rigs[1].price.usd = 1500;
  CHECK(added_text(loads, loads.rigs[1]) == why);
  loads.what = Comparison::What::kUpgrades;
  loads.rigs = {rig("as it is", 0, 60, 2, 2), rig("odd", 600, 120, 1, 2),
                rig("even", 1000, 105, 1, 1)};
  rank(loads);
  REQUIRE(loads.rigs[1].name == "even");
  CHECK(added_text(loads, loads.rigs[2]) == why + ": not counted as serving it alone");
}

TEST_CASE("Notes that are alike are told once, with their machines", "[load_plan]") {
  RigLoads loads;
  loads.rigs.resize(6);
  for (std::size_t i = 0; i < 6; ++i) {
    loads.rigs[i].name = std::string(1, char('a' + i));
    loads.rigs[i].notes = {i == 2 ? "another" : "little RAM"};
  }
  CHECK(notes_of(loads) ==
        std::vector<std::string>{"a, b, d, e and 1 more: little RAM", "c: another"});
}
