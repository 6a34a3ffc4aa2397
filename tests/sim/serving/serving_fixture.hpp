#pragma once
// A load that is known to have no fault, served.

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

}  // namespace rigcast::fixtures
