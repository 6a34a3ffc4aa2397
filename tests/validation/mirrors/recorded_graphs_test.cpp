// Graphs that a server records before its first request: the rows that the engine fills steps up
// to, and what the forecast counts.

#include "engine/backends/cuda/batch/step_rows.hpp"
#include "perfmodel/runtimes/rigcast.hpp"
#include "tests/validation/mirrors/mirror_fixture.hpp"

using namespace rigcast;
using namespace rigcast::fixtures;

TEST_CASE("Recorded graphs are counted by the rows that the engine fills up to",
          "[validation][mirror]") {
  Scenario s = engine_scenario(four_layers_of(llama_3_8b()), "Q4_K_M");
  s.scheduler = s.runtime.server->scheduler;
  s.load = Load{};
  const Placement all = place(s, s.model.layers + 1);
  for (const int sequences : {1, 3, 16, 30, 64, 200}) {
    CAPTURE(sequences);
    s.scheduler->sequences = decltype(s.scheduler->sequences)(sequences);
    int shapes = 0;
    for (int rows = 1; rows <= sequences; ++rows)
      shapes += engine::padded_rows(rows) == rows || rows == sequences ? 1 : 0;
    // Three contexts, with and without a draw: warm_up_decode().
    CHECK(RigcastEngine().recorded_graphs(s, all) == 6 * shapes);
  }
  s.load.reset();
  CHECK(RigcastEngine().recorded_graphs(s, all) == 0);
}
