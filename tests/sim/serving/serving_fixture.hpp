#pragma once
// Loads, what a step of theirs takes, and what no server may lose of them.

#include <utility>
#include <vector>

#include "sim/serving/serve.hpp"
#include "tests/catch.hpp"

namespace rigcast::fixtures {

inline ServingRun served(const std::vector<ServedRequest>& load, const SchedulerPolicy& policy,
                         std::size_t blocks, const StepTime& time) {
  auto run = serve(load, policy, TokenCount(blocks) * policy.block_tokens, time);
  if (!run) FAIL(run.error().text());
  return *std::move(run);
}

/// Conversations of two turns, forty at a time: the second begins with all of the first.
inline std::vector<ServedRequest> two_turns(std::size_t count, Seconds gap) {
  constexpr std::size_t kAtOnce = 40;
  std::vector<ServedRequest> out;
  for (std::size_t i = 0; i < count; ++i) {
    ServedRequest r{
        gap * double(i), 30 + TokenCount(i * 37 % 90), 1 + TokenCount(i * 53 % 40), {}, 0};
    if (i / kAtOnce % 2 == 1) {
      const ServedRequest& before = out[i - kAtOnce];
      r.continues = i - kAtOnce;
      r.shared = before.prompt + before.output - 1;
      r.prompt += r.shared;
    }
    out.push_back(r);
  }
  return out;
}

/// 10 ms, and 20 us for each token.
inline Seconds step_time(const StepWork& work) {
  TokenCount tokens = work.decodes;
  for (const SequenceWork& prompt : work.prompts) tokens += prompt.tokens;
  return Seconds{0.01 + 20e-6 * double(tokens)};
}

/// Little's law, and every token computed or found once. Who is preempted waits again, so that only
/// the sum of waiting and running is known.
inline void check_nothing_lost(const ServingRun& run, const std::vector<ServedRequest>& load) {
  double times = 0;
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < load.size(); ++i) {
    times += (run.requests[i].last_token - load[i].arrival).value;
    tokens += load[i].prompt + load[i].output - 1;
  }
  CHECK(run.waiting + run.running == Approx(times).epsilon(1e-9));
  CHECK(run.computed_tokens + run.hit_tokens + run.ram_hit_tokens + run.disk_hit_tokens -
            run.lost_tokens ==
        tokens);
}

}  // namespace rigcast::fixtures
