// Keys and values that leave a server's cache for RAM, and come back over the link.
#include "sim/serving/cache/ram_tier.hpp"

#include <cmath>
#include <random>
#include <vector>

#include "sim/serving/cache/ram_blocks.hpp"
#include "sim/serving/cache/ram_states.hpp"
#include "tests/sim/serving/serving_fixture.hpp"

using namespace rigcast;
using fixtures::check_nothing_lost;
using fixtures::step_time;

namespace {

constexpr double kTokenBytes = 1000, kRate = 1e6;  // a token takes a millisecond

RamTier tier_of(TokenCount tokens) {
  RamTier tier;
  tier.capacity = Bytes{kTokenBytes * double(tokens)};
  tier.bytes_of = [](TokenCount n) { return Bytes{kTokenBytes * double(n)}; };
  tier.to_ram = tier.to_gpu = BytesPerSecond{kRate};
  tier.layers = 4;
  return tier;
}

SchedulerPolicy blocks(RamLoad load) {
  SchedulerPolicy p;
  p.ram_load = load;
  p.sequences = 8;
  p.step_tokens = 256;
  return p;
}

SchedulerPolicy slots(std::size_t count, bool unified = false) {
  SchedulerPolicy p;
  p.order = StepOrder::kDecodesFirst;
  p.reserve = KvReserve::kStep;
  p.layout = KvLayout::kSlots;
  p.ram_load = RamLoad::kBlocking;
  p.sequences = count;
  p.step_tokens = 256;
  p.unified = unified;
  return p;
}

ServingRun served(const std::vector<ServedRequest>& load, const SchedulerPolicy& policy,
                  TokenCount tokens, const StepTime& time, const RamTier& ram) {
  auto run = serve(load, policy, tokens, time, ram);
  if (!run) FAIL(run.error().text());
  return *std::move(run);
}

Seconds one_second(const StepWork&) { return Seconds{1}; }

// Conversations, each turn of which begins with all that was said before.
std::vector<ServedRequest> conversations(std::size_t count, double rate) {
  std::mt19937_64 random(31);
  const auto uniform = [&] { return (double(random() >> 11) + 0.5) / 9007199254740992.0; };
  std::vector<ServedRequest> load;
  std::vector<std::size_t> last;  // turn of each conversation
  double now = 0;
  for (std::size_t i = 0; i < count; ++i) {
    ServedRequest r;
    r.arrival = Seconds{now += -std::log(uniform()) / rate};
    r.prompt = 20 + TokenCount(60 * uniform());
    r.output = 1 + TokenCount(30 * uniform());
    const auto of = std::size_t(uniform() * 40);
    if (of < last.size() && load[last[of]].prompt < 400) {
      r.continues = last[of];
      r.shared = load[last[of]].prompt + load[last[of]].output - 1;
      r.prompt += r.shared;
      last[of] = i;
    } else {
      last.push_back(i);
    }
    load.push_back(r);
  }
  return load;
}

}  // namespace

TEST_CASE("A tier in RAM loses no token, block, byte or second", "[serving][ram]") {
  constexpr TokenCount kCache = 1600, kInRam = 8000;
  for (const double rate : {2.0, 8.0}) {
    const auto load = conversations(1500, rate);
    for (const SchedulerPolicy& policy :
         {blocks(RamLoad::kAhead), blocks(RamLoad::kByLayer), slots(4), slots(4, true)}) {
      INFO(int(policy.ram_load) << (policy.unified ? ", unified" : "") << ", " << rate
                                << " requests/s");
      const bool has_slots = policy.layout == KvLayout::kSlots;
      const TokenCount cache = has_slots ? 4 * 600 : kCache;
      const ServingRun run = served(load, policy, cache, step_time, tier_of(kInRam));
      const ServingRun again = served(load, policy, cache, step_time, tier_of(kInRam));
      check_nothing_lost(run, load);
      CHECK(run.free_blocks_at_end == (has_slots ? 4 : std::size_t(cache / 16)));
      CHECK(run.ram_hit_tokens > 0);
      CHECK(run.to_gpu.value >= kTokenBytes * double(run.ram_hit_tokens));
      if (policy.ram_load == RamLoad::kByLayer)
        CHECK(run.to_gpu.value == Approx(kTokenBytes * double(run.ram_hit_tokens)).epsilon(1e-9));
      CHECK(run.to_ram_busy.value == Approx(run.to_ram.value / kRate).epsilon(1e-9));
      CHECK(run.to_gpu_busy.value == Approx(run.to_gpu.value / kRate).epsilon(1e-9));
      CHECK(run.end == again.end);
      CHECK(run.to_ram == again.to_ram);
      // Without it more is computed.
      const ServingRun none = served(load, policy, cache, step_time, {});
      CHECK(none.computed_tokens > run.computed_tokens);
      CHECK(none.ram_hit_tokens == 0);
      CHECK(none.to_ram.value == 0);
    }
  }
}

TEST_CASE("Copies of one direction follow one another", "[serving][ram]") {
  // With constant copies and Poisson arrivals it is M/D/1: mean wait rho S / (2 (1 - rho)).
  constexpr int kBatches = 20, kOfBatch = 4000;
  constexpr double kLoad = 0.7, kCopy = 1;
  std::mt19937_64 random(7);
  CopyQueue queue(BytesPerSecond{1}, Seconds{});
  double now = 0;
  std::vector<double> means;
  for (int b = 0; b < kBatches; ++b) {
    double sum = 0;
    for (int i = 0; i < kOfBatch; ++i) {
      now += -std::log((double(random() >> 11) + 0.5) / 9007199254740992.0) * kCopy / kLoad;
      sum += queue.add(Seconds{now}, Bytes{kCopy}).end.value - now - kCopy;
    }
    means.push_back(sum / kOfBatch);
  }
  double mean = 0, squares = 0;
  for (const double m : means) mean += m / kBatches;
  for (const double m : means) squares += (m - mean) * (m - mean);
  const double error = std::sqrt(squares / (kBatches - 1) / kBatches);
  CHECK(std::abs(mean - kLoad * kCopy / (2 * (1 - kLoad))) < 4 * error);
  CHECK(queue.busy().value == Approx(kBatches * kOfBatch * kCopy));
}

TEST_CASE("vLLM schedules a request when its blocks are back", "[serving][ram]") {
  // Two prompts of 160 tokens fill the 20 blocks, two others take them, then both go on.
  std::vector<ServedRequest> load{{Seconds{0}, 160, 1, {}, 0},   {Seconds{0}, 160, 1, {}, 0},
                                  {Seconds{10}, 160, 1, {}, 0},  {Seconds{10}, 160, 1, {}, 0},
                                  {Seconds{20}, 161, 1, 0, 160}, {Seconds{20}, 161, 1, 1, 160}};
  SchedulerPolicy policy = blocks(RamLoad::kAhead);
  policy.step_tokens = 1000;
  const ServingRun run = served(load, policy, 22 * 16, one_second, tier_of(10'000));
  CHECK(run.requests[4].ram_hit == 160);
  CHECK(run.requests[5].ram_hit == 160);
  // 160 ms each, the second behind the first; the step that runs meanwhile takes a second.
  CHECK(run.requests[4].first_token.value == Approx(20.16 + 1));
  CHECK(run.requests[5].scheduled.value == Approx(21.16));
  CHECK(run.to_gpu_busy.value == Approx(0.32));
  CHECK(run.copy_full.value == Approx(0.16 + 1).epsilon(1e-9));
  // All four prompts were copied when they were computed.
  CHECK(run.to_ram.value == Approx(4 * 160 * kTokenBytes));
  // What RAM has no room for is computed again.
  CHECK(served(load, policy, 22 * 16, one_second, tier_of(320)).ram_hit_tokens == 0);
}

TEST_CASE("SGLang computes a layer when it is back", "[serving][ram]") {
  std::vector<ServedRequest> load{
      {Seconds{0}, 160, 1, {}, 0}, {Seconds{10}, 176, 1, {}, 0}, {Seconds{20}, 161, 1, 0, 160}};
  const auto took = [&](double step) {
    const ServingRun run = served(
        load, blocks(RamLoad::kByLayer), 11 * 16, [&](const StepWork&) { return Seconds{step}; },
        tier_of(10'000));
    CHECK(run.requests[2].ram_hit == 160);
    return run.requests[2].first_token.value - 20;
  };
  // The longer of both, and one of four layers of the other.
  CHECK(took(1) == Approx(1 + 0.16 / 4));
  CHECK(took(0.04) == Approx(0.16 + 0.04 / 4));
}

TEST_CASE("llama-server keeps what a slot loses, and all wait for the copy", "[serving][ram]") {
  // One slot is busy; three conversations take turns in the other.
  std::vector<ServedRequest> load{{Seconds{0}, 10, 100, {}, 0},
                                  {Seconds{5.5}, 100, 2, {}, 0},
                                  {Seconds{20.5}, 100, 2, {}, 0},
                                  {Seconds{40.5}, 150, 2, 1, 101}};
  const ServingRun run = served(load, slots(2), 2 * 300, one_second, tier_of(10'000));
  CHECK(run.requests[3].hit == 0);
  CHECK(run.requests[3].ram_hit == 101);
  // The second conversation saved the first one, the third the second one, and took the first back.
  CHECK(run.to_ram.value == Approx(2 * 101 * kTokenBytes));
  CHECK(run.to_gpu.value == Approx(101 * kTokenBytes));
  const ServingRun none = served(load, slots(2), 2 * 300, one_second, {});
  CHECK(none.requests[3].ram_hit == 0);
  // The answer in the other slot waits as well.
  CHECK(run.requests[0].last_token.value == Approx(none.requests[0].last_token.value + 3 * 0.101));
  CHECK(run.copy_full.value == Approx(3 * 0.101));
}

TEST_CASE("States in RAM replace their beginnings; the oldest goes first", "[serving][ram]") {
  RequestLog log;
  log.add({Seconds{0}, 100, 10, {}, 0});
  log.add({Seconds{0}, 150, 10, 0, 109});
  log.add({Seconds{0}, 200, 10, {}, 0});
  log.add({Seconds{0}, 40, 10, 2, 40});
  const RamTier tier = tier_of(400);
  RamStates states(tier, log);
  CHECK(states.save({0, 109}).value == Approx(109 * kTokenBytes));
  CHECK(states.save({0, 50}).value == 0);  // it is there
  CHECK(states.save({1, 159}).value == Approx(159 * kTokenBytes));
  CHECK(states.size().value == Approx(159 * kTokenBytes));
  CHECK(states.save({2, 500}).value == 0);  // more than all of it
  CHECK(states.save({2, 209}).value > 0);
  // 40 of 209 tokens are less than a quarter; and a slot that holds as much is not changed.
  CHECK_FALSE(states.take_better(3, 0, 0));
  CHECK_FALSE(states.take_better(1, 159, 159));
  const auto found = states.take_better(0, 0, 30);
  REQUIRE(found);
  CHECK(found->request == 1);
  CHECK(states.size().value == Approx(209 * kTokenBytes));
  CHECK(states.save({1, 159}).value > 0);
  CHECK(states.save({3, 40}).value == 0);  // the beginning of what is there
  log.add({Seconds{0}, 100, 10, {}, 0});
  CHECK(states.save({4, 100}).value > 0);  // the third one, the oldest, makes room
  CHECK(states.size().value == Approx((159 + 100) * kTokenBytes));
}

TEST_CASE("Blocks in RAM that were used the longest ago go first", "[serving][ram]") {
  const auto block = [](std::uint32_t request) { return BlockRun{request, 0, 1}; };
  RamBlocks ram(2);
  CHECK(ram.store(block(1)) == 1);
  CHECK(ram.store(block(2)) == 1);
  CHECK(ram.store(block(1)) == 0);
  CHECK(ram.store(block(3)) == 1);
  CHECK(ram.held_until(block(1)) == 1);
  CHECK(ram.held_until(block(2)) == 0);
  CHECK(ram.size() == 2);
  CHECK(RamBlocks(0).store(block(1)) == 0);
}

TEST_CASE("Slots that share one cache use what others leave", "[serving][ram]") {
  // 300 cells for two slots: one request may have more than half.
  std::vector<ServedRequest> load{{Seconds{0}, 100, 2, {}, 0}, {Seconds{10}, 250, 2, {}, 0}};
  CHECK_FALSE(serve(load, slots(2), 300, one_second));
  const ServingRun run = served(load, slots(2, true), 300, one_second, {});
  CHECK(run.requests[1].last_token.value == 12);  // the first slot was cleared
  // Two at once do not fit: there is no preemption, and all fail.
  load[1].arrival = Seconds{0};
  load[0].output = 100;
  const auto failed = serve(load, slots(2, true), 300, one_second);
  REQUIRE_FALSE(failed);
  CHECK(failed.error().kind == ErrorKind::kDoesNotFit);
  CHECK(failed.error().message.find("Context size has been exceeded") != std::string::npos);
}
