#pragma once
// One request, timed: a prompt in, tokens out.

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/base/metrics.hpp"
#include "engine/run/executor.hpp"
#include "engine/run/sampler.hpp"

namespace rigcast::engine {

struct RequestTimes {
  Seconds prefill;    // from the call to the first token's logits
  Seconds sample;     // from there to its id
  TokenTimes tokens;  // since the call
  MovedBytes prefill_bytes, decode_bytes;
  double cpu_share = 0;  // share of the threads' time in which they had a processor; below 1, the
                         // machine was busy
  std::vector<std::int32_t> ids;
};

/// Called with every token as soon as its id is known; false ends the request.
using OnToken = std::function<bool(std::int32_t id)>;

/// Appends the prompt to the executor's context and decodes up to `output` tokens, each sampled
/// from the logits of the one before. `output` >= 1. An executor that is asked to stop ends the
/// request as `on_token` does; within the prompt, where nothing is known yet, Interrupted is
/// thrown.
RequestTimes run_request(Executor& executor, std::span<const std::int32_t> prompt,
                         TokenCount output, Sampler& sampler, const OnToken& on_token = {},
                         Recorder* recorder = nullptr);

/// Random ids below `vocabulary`, the same for the same seed: a prompt for timing.
std::vector<std::int32_t> random_prompt(TokenCount tokens, std::int64_t vocabulary,
                                        std::uint64_t seed);

}  // namespace rigcast::engine
