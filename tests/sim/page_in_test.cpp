// Weights that RAM cannot hold, in closed form.
#include "perfmodel/cost/page_in.hpp"

#include <cmath>

#include "perfmodel/mean_turn.hpp"
#include "perfmodel/memory.hpp"
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
  Bytes page_in(TokenCount tokens) const { return rigcast::page_in(s, placement, memory, tokens); }

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
