// The mask that the host writes for every batch, calculated by hand.

#include "perfmodel/cost/attention_mask.hpp"

#include "perfmodel/serial_time.hpp"
#include "tests/catch.hpp"
#include "tests/sim/scenario_fixtures.hpp"

using namespace rigcast;
using namespace rigcast::fixtures;

namespace {

// All layers on one card, with a host of 2 GHz as measured.
Scenario of_card() {
  Scenario s = scenario({{"model.name", "llama-2-7b"}, {"placement.gpu_layers", "33"}});
  s.runtime.prefill.mask_cycles.value = 20;
  s.runtime.prefill.mask_until.value = 2026;
  s.rig.cpu.clock = Sourced<Hertz>{Hertz{2e9}, SourceKind::kMeasured, "a test"};
  s.settings.build_year = 2025.5;
  s.settings.ubatch = 512;
  return s;
}

}  // namespace

TEST_CASE("A mask has the cells of the cache for each token of a batch", "[mask]") {
  Scenario s = of_card();
  const Batch batch({Sequence{1000, 512, 1000, 512}}, 256);
  CHECK(mask_pairs(s, batch) == 512 * 1536);  // 1512 cells in multiples of 256
  CHECK(mask_time(s, 1e6).value == Approx(1e6 * 20 / 2e9));
  // Layers with a window have a mask of their own, of window and ubatch.
  s.model = scenario({{"model.name", "gemma-3-1b"}, {"placement.gpu_layers", "27"}}).model;
  REQUIRE(s.model.window->tokens == 512);
  CHECK(mask_pairs(s, batch) == 512 * (1536 + 1024));
}

TEST_CASE("Builds that no longer look at each cell take no time for it", "[mask]") {
  Scenario s = of_card();
  s.settings.build_year = 2026.0;
  CHECK(mask_time(s, 1e6).value == 0);
  s.settings.build_year.reset();  // today's
  CHECK(mask_time(s, 1e6).value == 0);
}

TEST_CASE("The first mask is waited for; later ones are written beside the GPU's work", "[mask]") {
  Scenario s = of_card();
  const auto prompt = [&](TokenCount depth, TokenCount tokens, double cycles) {
    s.workload.depth = depth;
    s.workload.prompt_tokens = tokens;
    s.workload.context = depth + tokens + 16;
    s.runtime.prefill.mask_cycles.value = cycles;
    return SerialForecast(s).prompt().value;
  };
  const double pairs = 512.0 * double(read_cells(4096 + 512, s.runtime.memory.kv_padding));
  CHECK(prompt(4096, 512, 20) - prompt(4096, 512, 0) == Approx(pairs * 20 / 2e9));
  // Of two ubatches, the second one's is hidden where the GPU takes longer for them.
  const double first = 512.0 * double(read_cells(512, s.runtime.memory.kv_padding));
  CHECK(prompt(0, 1024, 1) - prompt(0, 1024, 0) == Approx(first * 1 / 2e9));
  // And where the mask takes longer than the GPU, it alone counts.
  const double both = first + 512.0 * double(read_cells(1024, s.runtime.memory.kv_padding));
  CHECK(prompt(0, 1024, 1e6) > 0.99 * both * 1e6 / 2e9);
}

TEST_CASE("The thread that writes a later mask also launches the kernels", "[mask]") {
  Scenario s = of_card();
  s.workload.prompt_tokens = 1024;
  s.workload.context = 2048;
  const double pairs = 512.0 * double(read_cells(1024, s.runtime.memory.kv_padding));
  // The second ubatch, by the prompt less the first one; the GPU's work on it is much shorter.
  const auto later = [&](double cycles) {
    s.runtime.prefill.mask_cycles.value = cycles;
    s.workload.prompt_tokens = 1024;
    const double both = SerialForecast(s).prompt().value;
    s.workload.prompt_tokens = 512;
    return both - SerialForecast(s).prompt().value;
  };
  const double before = later(1e6) - pairs * 1e6 / 2e9;
  for (BackendEfficiency& backend : s.runtime.backends) backend.launch.value = Seconds{1e-3};
  const double slower = later(1e6) - pairs * 1e6 / 2e9;
  CHECK(before >= 0);
  // Each layer has more than ten kernels.
  CHECK(slower - before > 10 * s.model.layers * 1e-3 * 0.9);
}

TEST_CASE("A host that computes layers writes no mask meanwhile", "[mask]") {
  Scenario s = of_card();
  s.placement.gpu_layers = s.model.layers / 2;
  s.workload.prompt_tokens = 1024;
  s.workload.context = 2048;
  s.settings.op_offload = false;
  const auto prompt = [&](double cycles) {
    s.runtime.prefill.mask_cycles.value = cycles;
    return SerialForecast(s).prompt().value;
  };
  const double pairs = 512.0 * double(read_cells(512, s.runtime.memory.kv_padding) +
                                      read_cells(1024, s.runtime.memory.kv_padding));
  CHECK(prompt(20) - prompt(0) == Approx(pairs * 20 / 2e9));
}
