// What each server's rules decide, and that no rules lose a token, a block or a second.
#include <cmath>
#include <random>

#include "tests/sim/serving/serving_fixture.hpp"

using namespace rigcast;
using fixtures::served;

namespace {

SchedulerPolicy policy_of(StepOrder order, KvReserve reserve, KvLayout layout) {
  SchedulerPolicy p;
  p.order = order;
  p.reserve = reserve;
  p.layout = layout;
  p.sequences = 8;
  p.step_tokens = 256;
  if (reserve == KvReserve::kEstimate) p.victim = Victim::kFewestGenerated;
  return p;
}

SchedulerPolicy slots(std::size_t count) {
  SchedulerPolicy p = policy_of(StepOrder::kDecodesFirst, KvReserve::kStep, KvLayout::kSlots);
  p.sequences = count;
  return p;
}

// Requests of all lengths, a third of which continue an earlier one.
std::vector<ServedRequest> mixed_load(std::size_t count, double rate) {
  std::mt19937_64 random(29);
  const auto uniform = [&] { return (double(random() >> 11) + 0.5) / 9007199254740992.0; };
  std::vector<ServedRequest> load;
  double now = 0;
  for (std::size_t i = 0; i < count; ++i) {
    ServedRequest r;
    r.arrival = Seconds{now += -std::log(uniform()) / rate};
    r.prompt = 1 + TokenCount(400 * uniform());
    r.output = 1 + TokenCount(150 * uniform());
    if (i > 0 && uniform() < 0.33) {
      r.continues = std::size_t(uniform() * double(i));
      r.shared = std::min(r.prompt, load[*r.continues].prompt);
    }
    load.push_back(r);
  }
  return load;
}

// A step takes 10 ms, and 20 us for each token.
Seconds step_time(const StepWork& work) {
  TokenCount tokens = work.decodes;
  for (const SequenceWork& prompt : work.prompts) tokens += prompt.tokens;
  return Seconds{0.01 + 20e-6 * double(tokens) + 1e-9 * work.decodes_cached};
}

}  // namespace

TEST_CASE("No server's rules lose a token, a block or a second", "[serving]") {
  constexpr std::size_t kBlocks = 80;  // of 16 tokens: not enough for all that may run
  for (const double rate : {2.0, 8.0}) {
    const auto load = mixed_load(2000, rate);
    for (const StepOrder order : {StepOrder::kAdmission, StepOrder::kDecodesFirst,
                                  StepOrder::kPromptsFirst, StepOrder::kWholeBatches})
      for (const KvReserve reserve :
           {KvReserve::kStep, KvReserve::kPrompt, KvReserve::kAnswers, KvReserve::kEstimate})
        for (const KvLayout layout : {KvLayout::kBlocks, KvLayout::kSlots}) {
          const bool has_slots = layout == KvLayout::kSlots;
          if (!has_slots && order == StepOrder::kDecodesFirst) continue;
          INFO(name(order) << ", reserve " << int(reserve) << (has_slots ? ", slots" : ", blocks")
                           << ", " << rate << " requests/s");
          const SchedulerPolicy policy = policy_of(order, reserve, layout);
          const std::size_t blocks = has_slots ? 8 * 40 : kBlocks;
          const ServingRun run = served(load, policy, blocks, step_time);
          double waiting = 0, running = 0;
          std::int64_t tokens = 0;
          int preemptions = 0;
          for (std::size_t i = 0; i < load.size(); ++i) {
            const ServedTimes& t = run.requests[i];
            waiting += (t.scheduled - load[i].arrival).value;
            running += (t.last_token - t.scheduled).value;
            tokens += load[i].prompt + load[i].output - 1;
            preemptions += t.preemptions;
            if (!(t.scheduled >= load[i].arrival && t.first_token > t.scheduled &&
                  t.last_token >= t.first_token))
              FAIL("request " << i);
          }
          // Little's law. Who is preempted waits again, so that the sums change places.
          CHECK(run.waiting + run.running == Approx(waiting + running).epsilon(1e-9));
          CHECK(run.computed_tokens + run.hit_tokens - run.lost_tokens == tokens);
          CHECK(run.free_blocks_at_end == (has_slots ? 8 : blocks));
          CHECK(run.busy <= run.end);
          if (reserve == KvReserve::kAnswers || has_slots) CHECK(preemptions == 0);
        }
  }
}

TEST_CASE("A prompt does not stop the answers of a server with slots", "[serving]") {
  // 1,000 tokens in steps of 256: the answer goes on with a token in each.
  std::vector<ServedRequest> load(2);
  load[0] = {Seconds{0}, 1, 100, {}, 0};
  load[1] = {Seconds{0.5}, 1000, 2, {}, 0};
  TokenCount with_prompt = 0;
  const ServingRun run = served(load, slots(2), 2 * 100, [&](const StepWork& work) {
    if (!work.prompts.empty()) with_prompt += work.decodes;
    return Seconds{0.1};
  });
  CHECK(with_prompt == 4);  // 255 tokens of the prompt in each step but the last
  CHECK(run.requests[1].first_token.value == Approx(0.5 + 0.4));
  // Where prompts come first, the answer waits for them.
  SchedulerPolicy first =
      policy_of(StepOrder::kPromptsFirst, KvReserve::kPrompt, KvLayout::kBlocks);
  const ServingRun waits = served(load, first, 1000, [&](const StepWork& work) {
    if (!work.prompts.empty()) CHECK(work.decodes == 0);
    return Seconds{0.1};
  });
  CHECK(waits.requests[0].last_token.value == Approx(run.requests[0].last_token.value + 0.4));
}

TEST_CASE("Slots are filled in the order of their numbers, and keep a conversation", "[serving]") {
  std::vector<ServedRequest> load;
  load.push_back({Seconds{0}, 100, 10, {}, 0});
  load.push_back({Seconds{0}, 100, 10, {}, 0});
  // Both go on. The first slot is free longer, yet the second holds what the third continues.
  load.push_back({Seconds{10}, 150, 10, 1, 109});
  load.push_back({Seconds{20}, 150, 10, 0, 109});
  const ServingRun run = served(load, slots(2), 2 * 100, step_time);
  CHECK(run.requests[2].hit == 109);
  CHECK(run.requests[3].hit == 109);
  // What another slot holds is of no use; nor is what is less than a tenth of the prompt.
  load[3] = {Seconds{20}, 150, 10, 1, 14};
  CHECK(served(load, slots(2), 2 * 100, step_time).requests[3].hit == 0);
  load[3] = {Seconds{20}, 150, 10, 1, 16};
  CHECK(served(load, slots(2), 2 * 100, step_time).requests[3].hit == 16);
  // A slot has its share of the cache alone.
  load = {{Seconds{0}, 1000, 602, {}, 0}};
  const auto refused = serve(load, slots(2), 3200, step_time);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message ==
        "request 1 of the load has 1000 tokens of prompt and 602 of answer, more than the 1600 of "
        "the cache");
}

TEST_CASE("Requests join a static batch only when all of it has ended", "[serving]") {
  std::vector<ServedRequest> load;
  for (int i = 0; i < 16; ++i) load.push_back({Seconds{0}, 10, i % 8 == 7 ? 50 : 5, {}, 0});
  SchedulerPolicy policy =
      policy_of(StepOrder::kWholeBatches, KvReserve::kPrompt, KvLayout::kBlocks);
  const ServingRun run = served(load, policy, 1000, [](const StepWork&) { return Seconds{1}; });
  CHECK(run.requests[0].last_token.value == 5);
  for (std::size_t i = 8; i < 16; ++i) CHECK(run.requests[i].scheduled.value == 50);
  CHECK(run.end.value == 100);
}

TEST_CASE("Room is kept for answers as each server does", "[serving]") {
  // 160 tokens of cache; each request has 16 and 49: 64 in the end.
  std::vector<ServedRequest> load(4, {Seconds{0}, 16, 49, {}, 0});
  const auto running_at_first = [&](KvReserve reserve) {
    SchedulerPolicy policy = policy_of(StepOrder::kAdmission, reserve, KvLayout::kBlocks);
    TokenCount most = 0;
    const ServingRun run = served(load, policy, 10, [&](const StepWork& work) {
      most = std::max(most, work.decodes + TokenCount(work.prompts.size()));
      return Seconds{1};
    });
    int preemptions = 0;
    for (const ServedTimes& t : run.requests) preemptions += t.preemptions;
    return std::pair{most, preemptions > 0};
  };
  CHECK(running_at_first(KvReserve::kAnswers) == std::pair<TokenCount, bool>{2, false});
  CHECK(running_at_first(KvReserve::kPrompt) == std::pair<TokenCount, bool>{4, true});
  // 64 and 0.7 of 48 for each of the others: a third one does not fit at first.
  CHECK(running_at_first(KvReserve::kEstimate).first == 2);
}

TEST_CASE("Answers are kept room for in blocks of their own", "[serving]") {
  // Each has 16 tokens of prompt and 3 of answer, 18 in the cache: two blocks. Two tokens of each
  // of five would be one block together, but take five.
  const std::vector<ServedRequest> load(20, {Seconds{0}, 16, 3, {}, 0});
  const SchedulerPolicy policy =
      policy_of(StepOrder::kAdmission, KvReserve::kAnswers, KvLayout::kBlocks);
  TokenCount most = 0;
  const ServingRun run = served(load, policy, 7, [&](const StepWork& work) {
    most = std::max(most, work.decodes + TokenCount(work.prompts.size()));
    return Seconds{1};
  });
  CHECK(most == 3);
  CHECK(run.lost_tokens == 0);
}

TEST_CASE("Prompts of one step share what they begin with", "[serving]") {
  // Blocks are held when they are given, as vLLM's are: a larger budget finds no less.
  std::vector<ServedRequest> load(8, {Seconds{0}, 100, 2, {}, 0});
  for (std::size_t i = 1; i < load.size(); ++i) {
    load[i].continues = 0;
    load[i].shared = 96;
  }
  for (const TokenCount budget : {128, 4096}) {
    SchedulerPolicy policy;
    policy.step_tokens = budget;
    const ServingRun run = served(load, policy, 1000, step_time);
    CHECK(run.hit_tokens == 7 * 96);
  }
}

TEST_CASE("What somebody waits for is told apart", "[serving]") {
  const auto waits = [](std::size_t blocks, std::size_t sequences, TokenCount budget) {
    std::vector<ServedRequest> load(20, {Seconds{0}, 160, 10, {}, 0});
    SchedulerPolicy policy;
    policy.sequences = sequences;
    policy.step_tokens = budget;
    policy.prefix_cache = false;
    return served(load, policy, blocks, step_time);
  };
  const ServingRun cache = waits(25, 100, 100'000);
  CHECK(cache.cache_full.value > 0);
  CHECK(cache.sequences_full.value == 0);
  const ServingRun sequences = waits(1000, 2, 100'000);
  CHECK(sequences.sequences_full.value > 0);
  CHECK(sequences.cache_full.value == 0);
  const ServingRun budget = waits(1000, 100, 160);
  CHECK(budget.step_full.value > 0);
  CHECK(budget.cache_full.value == 0);
  CHECK(budget.sequences_full.value == 0);
}

TEST_CASE("SGLang's and TensorRT-LLM's rules lose nothing either", "[serving]") {
  for (const double rate : {2.0, 8.0}) {
    const auto load = mixed_load(2000, rate);
    SchedulerPolicy sglang =
        policy_of(StepOrder::kPromptsFirst, KvReserve::kEstimate, KvLayout::kBlocks);
    sglang.block_tokens = 1;
    sglang.requeue = Requeue::kLast;
    sglang.shares_in_step = false;
    SchedulerPolicy tensorrt =
        policy_of(StepOrder::kAdmission, KvReserve::kAnswers, KvLayout::kBlocks);
    tensorrt.block_tokens = 32;
    tensorrt.step_tokens = 600;
    tensorrt.chunked = tensorrt.shares_in_step = false;
    for (const SchedulerPolicy& policy : {sglang, tensorrt}) {
      const auto blocks = std::size_t(1280 / policy.block_tokens);
      const ServingRun run = served(load, policy, blocks, step_time);
      double times = 0;
      std::int64_t tokens = 0;
      int preemptions = 0;
      for (std::size_t i = 0; i < load.size(); ++i) {
        times += (run.requests[i].last_token - load[i].arrival).value;
        tokens += load[i].prompt + load[i].output - 1;
        preemptions += run.requests[i].preemptions;
      }
      CHECK(run.waiting + run.running == Approx(times).epsilon(1e-9));
      CHECK(run.computed_tokens + run.hit_tokens - run.lost_tokens == tokens);
      CHECK(run.free_blocks_at_end == blocks);
      if (policy.reserve == KvReserve::kAnswers) CHECK(preemptions == 0);
      if (policy.reserve == KvReserve::kEstimate && rate > 5) CHECK(preemptions > 0);
    }
  }
}

TEST_CASE("Prompts that are not cut wait for a step that holds them", "[serving]") {
  std::vector<ServedRequest> load(2, {Seconds{0}, 200, 2, {}, 0});
  SchedulerPolicy policy = policy_of(StepOrder::kAdmission, KvReserve::kAnswers, KvLayout::kBlocks);
  const auto second = [&] {
    return served(load, policy, 1000, [](const StepWork&) { return Seconds{1}; })
        .requests[1]
        .first_token.value;
  };
  CHECK(second() == 2);  // 56 tokens in the first step, the rest in the second
  policy.chunked = false;
  CHECK(second() == 2);
  policy.step_tokens = 400;
  CHECK(second() == 1);
  policy.step_tokens = 150;
  const auto refused = serve(load, policy, 16'000, step_time);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("more than the 150 of a step") != std::string::npos);
}

TEST_CASE("What shares only after its step computes more in the first one", "[serving]") {
  std::vector<ServedRequest> load(8, {Seconds{0}, 100, 2, {}, 0});
  for (std::size_t i = 1; i < load.size(); ++i) {
    load[i].continues = 0;
    load[i].shared = 96;
  }
  SchedulerPolicy policy;
  policy.step_tokens = 400;
  policy.shares_in_step = false;
  // Four prompts fill the first step, the other four find what they begin with.
  CHECK(served(load, policy, 1000, step_time).hit_tokens == 4 * 96);
}

TEST_CASE("Who gives up its blocks waits first or last", "[serving]") {
  // 160 tokens of cache: the second request gives up its blocks to the first. What that leaves is
  // too little for either of those that wait.
  std::vector<ServedRequest> load(3, {Seconds{0}, 48, 60, {}, 0});
  load[2].prompt = 70;
  SchedulerPolicy policy = policy_of(StepOrder::kAdmission, KvReserve::kPrompt, KvLayout::kBlocks);
  policy.prefix_cache = false;
  const auto order = [&] {
    const ServingRun run = served(load, policy, 10, step_time);
    CHECK(run.requests[1].preemptions > 0);
    return run.requests[1].last_token < run.requests[2].last_token;
  };
  policy.sequences = 2;
  CHECK(order());
  policy.requeue = Requeue::kLast;
  CHECK_FALSE(order());
}

TEST_CASE("What a preemption leaves is given to who waits, in the next step", "[serving]") {
  // 160 tokens of cache. When the second request gives up its five blocks, one of which the first
  // takes, the third one's prompt needs three of the others; it ends before the first needs them.
  std::vector<ServedRequest> load(3, {Seconds{0}, 48, 60, {}, 0});
  load[2].output = 5;
  SchedulerPolicy policy = policy_of(StepOrder::kAdmission, KvReserve::kPrompt, KvLayout::kBlocks);
  policy.prefix_cache = false;
  policy.sequences = 2;
  policy.requeue = Requeue::kLast;
  const ServingRun run = served(load, policy, 10, step_time);
  CHECK(run.requests[1].preemptions == 1);
  CHECK(run.requests[2].last_token < run.requests[0].last_token);
}

TEST_CASE("Requests that find the queue full are counted", "[serving]") {
  std::vector<ServedRequest> load(10, {Seconds{0}, 10, 2, {}, 0});
  SchedulerPolicy policy = slots(1);
  CHECK(served(load, policy, 100, step_time).beyond_queue == 0);
  policy.max_waiting = 4;
  CHECK(served(load, policy, 100, step_time).beyond_queue == 5);  // one is for the slot
}
