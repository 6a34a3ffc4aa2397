// What requests find where they have states or windows beside their blocks: as far as a checkpoint
// reaches, as in the engine (tests/engine/serve/checkpoints_test.cpp has the same figures).
#include "sim/serving/cache/checkpoints.hpp"

#include <vector>

#include "sim/serving/serve.hpp"
#include "tests/catch.hpp"
#include "tests/sim/serving/serving_fixture.hpp"

using namespace rigcast;
using fixtures::check_nothing_lost;
using fixtures::step_time;

namespace {

struct Asked {
  TokenCount prompt = 0, output = 0;
  std::optional<std::size_t> continues{};
  TokenCount shared = 0;
};

// Tokens that each request has found. One is asked when the last has long ended.
std::vector<TokenCount> found(const std::vector<Asked>& asked, std::size_t checkpoints) {
  std::vector<ServedRequest> load;
  for (const Asked& a : asked)
    load.push_back({Seconds{1e4 * double(load.size())}, a.prompt, a.output, a.continues, a.shared});
  SchedulerPolicy policy;
  policy.block_tokens = 4;
  policy.step_tokens = 64;
  policy.sequences = 4;
  policy.shares_in_step = false;
  CacheRoom room(512);
  room.checkpoints = checkpoints;
  const auto run = serve(load, policy, room, step_time);
  REQUIRE(run);
  check_nothing_lost(*run, load);
  std::vector<TokenCount> hits;
  for (const ServedTimes& times : run->requests) hits.push_back(times.hit);
  return hits;
}

using Hits = std::vector<TokenCount>;

}  // namespace

TEST_CASE("A later turn is found up to a checkpoint of the one before", "[serving][checkpoints]") {
  // All that was said, of which 69 tokens were computed; and the prompt alone.
  CHECK(found({{50, 20}, {85, 20, 0, 70}}, 8) == Hits{0, 68});
  CHECK(found({{50, 20}, {65, 20, 0, 50}}, 8) == Hits{0, 40});
  CHECK(found({{50, 20}, {65, 20, 0, 50}}, 0) == Hits{0, 48});
}

TEST_CASE("What two have begun with is found by the third", "[serving][checkpoints]") {
  CHECK(found({{130, 5}, {130, 5, 0, 100}, {130, 5, 0, 100}}, 8) == Hits{0, 0, 100});
  CHECK(found({{130, 5}, {130, 5, 0, 100}, {130, 5, 0, 100}}, 0) == Hits{0, 100, 100});
}

TEST_CASE("The checkpoint that was used longest ago is given up", "[serving][checkpoints]") {
  CHECK(found({{41, 2}, {41, 2}, {41, 2}, {41, 2, 0, 41}, {41, 2, 2, 41}, {41, 2, 1, 41}}, 3) ==
        Hits{0, 0, 0, 32, 32, 0});
}
