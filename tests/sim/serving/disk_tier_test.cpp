// Keys and values that leave a server's cache for a disk, and come back or are computed anew.
#include <algorithm>
#include <random>
#include <vector>

#include "sim/serving/cache/restore_choice.hpp"
#include "tests/sim/serving/serving_fixture.hpp"

using namespace rigcast;
using fixtures::check_nothing_lost;

namespace {

constexpr double kTokenBytes = 1000;

// A token takes 1 ms from RAM and 2 ms from disk. Tokens of each that there is room for.
RamTier tier_of(TokenCount ram, TokenCount disk, KvRestore when) {
  RamTier tier;
  tier.capacity = Bytes{kTokenBytes * double(ram)};
  tier.disk = Bytes{kTokenBytes * double(disk)};
  tier.bytes_of = [](TokenCount n) { return Bytes{kTokenBytes * double(n)}; };
  tier.to_ram = tier.to_gpu = BytesPerSecond{1e6};
  tier.from_disk = BytesPerSecond{0.5e6};
  tier.restore = {when, tier.to_gpu, tier.from_disk};
  return tier;
}

SchedulerPolicy policy_of(TokenCount step_tokens) {
  SchedulerPolicy p;
  p.sequences = 8;
  p.step_tokens = step_tokens;
  return p;
}

ServingRun served(const std::vector<ServedRequest>& load, const SchedulerPolicy& policy,
                  TokenCount tokens, const StepTime& time, const RamTier& tier) {
  auto run = serve(load, policy, tokens, time, tier);
  if (!run) FAIL(run.error().text());
  return *std::move(run);
}

// Two prompts, and two later ones that take their blocks; then both go on, of 160 tokens each.
const std::vector<ServedRequest> kTurns{
    {Seconds{0}, 160, 1, {}, 0},  {Seconds{0}, 160, 1, {}, 0},   {Seconds{10}, 160, 1, {}, 0},
    {Seconds{10}, 160, 1, {}, 0}, {Seconds{20}, 161, 1, 0, 160}, {Seconds{20}, 161, 1, 1, 160}};

StepTime seconds(double of_token) {
  return [of_token](const StepWork& work) {
    double tokens = double(work.decodes);
    for (const SequenceWork& s : work.prompts) tokens += double(s.tokens);
    return sim::StepUse{Seconds{of_token * tokens}};
  };
}

}  // namespace

TEST_CASE("A request is scheduled when its blocks are back from disk", "[serving][disk]") {
  const StepTime second = [](const StepWork&) { return sim::StepUse{Seconds{1}}; };
  const ServingRun run =
      served(kTurns, policy_of(1000), 22 * 16, second, tier_of(0, 10'000, KvRestore::kAlways));
  CHECK(run.requests[4].disk_hit == 160);
  CHECK(run.requests[5].disk_hit == 160);
  // 320 ms each, the second behind the first; the step that runs meanwhile takes a second.
  CHECK(run.requests[4].first_token.value == Approx(20.32 + 1));
  CHECK(run.requests[5].scheduled.value == Approx(21.32));
  CHECK(run.from_disk.value == Approx(320 * kTokenBytes));
  CHECK(run.to_disk.value == Approx(4 * 160 * kTokenBytes));
  CHECK(run.ram_hit_tokens == 0);
  CHECK_FALSE(run.restore);  // nothing was decided
  // What is in RAM comes from there: that of the last two requests in it, and one before.
  const ServingRun both = served(kTurns, policy_of(1000), 22 * 16, second,
                                 tier_of(3 * 160, 10'000, KvRestore::kAlways));
  CHECK(both.requests[4].ram_hit + both.requests[4].disk_hit == 160);
  CHECK(both.requests[5].ram_hit == 160);
  CHECK(both.requests[5].scheduled < run.requests[5].scheduled);
}

TEST_CASE("What computes faster than the disk reads is computed anew", "[serving][disk]") {
  for (const double of_token : {0.001, 0.003}) {  // 2 ms from disk
    CAPTURE(of_token);
    const ServingRun run = served(kTurns, policy_of(320), 22 * 16, seconds(of_token),
                                  tier_of(0, 10'000, KvRestore::kAuto));
    const bool restores = of_token > 0.002;
    CHECK((run.disk_hit_tokens == 320) == restores);
    CHECK((run.from_disk.value > 0) == restores);
    REQUIRE(run.restore);
    CHECK(run.restore->prompt_tokens_per_s == Approx(1 / of_token));
    CHECK(run.restore->from_disk->value == 0.5e6);
    CHECK_FALSE(run.restore->from_ram);
    CHECK(run.restore->computed_anew == (restores ? 0 : 320));
    const double faster = std::min(0.32 + of_token, 161 * of_token);
    CHECK(run.requests[4].first_token.value == Approx(20 + faster).epsilon(0.02));
  }
  const ServingRun never = served(kTurns, policy_of(320), 22 * 16, seconds(1),
                                  tier_of(1000, 10'000, KvRestore::kRecompute));
  CHECK(never.disk_hit_tokens + never.ram_hit_tokens == 0);
}

TEST_CASE("The first blocks come back of which the sum takes the least time", "[serving][disk]") {
  // A block of 10 bytes takes 1 s from RAM, 5 s from disk, and 4 s to compute.
  RestoreChoice choice({KvRestore::kAuto, BytesPerSecond{10}, BytesPerSecond{2}}, 8, Bytes{10});
  CHECK(choice.blocks_back({{true, 4}}) == 4);  // nothing is known of prompts
  choice.computed(20, Seconds{10});
  CHECK(choice.blocks_back({{true, 4}}) == 0);
  CHECK(choice.blocks_back({{false, 4}}) == 4);
  CHECK(choice.blocks_back({{true, 2}, {false, 1}}) == 3);
  CHECK(choice.blocks_back({{true, 3}, {false, 1}}) == 4);  // as long either way
  CHECK(choice.blocks_back({{true, 4}, {false, 1}}) == 0);
  CHECK(choice.blocks_back({{false, 2}, {true, 1}}) == 2);
  CHECK(choice.blocks_back({{false, 2}, {true, 1}, {false, 1}}) == 4);
}

TEST_CASE("Tiers on disk lose no token, byte or second", "[serving][disk]") {
  std::mt19937_64 random(31);
  for (int i = 0; i < 24; ++i) {
    CAPTURE(i);
    std::vector<ServedRequest> load;
    double now = 0;
    for (std::size_t n = 0; n < 120; ++n) {
      now += double(random() % 1000) * 1e-3;
      ServedRequest r{
          Seconds{now}, TokenCount(20 + random() % 200), TokenCount(1 + random() % 40), {}, 0};
      if (n > 12 && random() % 3 > 0) {
        r.continues = n - 1 - random() % 12;
        r.shared = load[*r.continues].prompt + load[*r.continues].output - 1;
        r.prompt = r.shared + TokenCount(1 + random() % 30);
        if (r.prompt > 800) r = {Seconds{now}, 100, 10, {}, 0};
      }
      load.push_back(r);
    }
    const auto when = KvRestore(i % 3);
    const TokenCount ram = i % 2 == 0 ? 0 : 800;
    const ServingRun run =
        served(load, policy_of(256), 60 * 16, seconds(0.003), tier_of(ram, 4000 + 500 * i, when));
    check_nothing_lost(run, load);
    CHECK(run.free_blocks_at_end == 60);
    CHECK(run.from_disk.value >= kTokenBytes * double(run.disk_hit_tokens) * (1 - 1e-12));
    CHECK((run.disk_hit_tokens > 0) == (when != KvRestore::kRecompute));
  }
}
