#pragma once
// A load in real time: its requests are asked of a server when they are due.

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "engine/serve/completions.hpp"
#include "load/offered_load.hpp"
#include "validation/runs/load/load_prompts.hpp"
#include "validation/runs/load/load_recorder.hpp"

namespace rigcast::validation {

struct ReplayOptions {
  engine::Sampling sampling{};
  std::function<bool()> keep_going{};                 // asked again and again; false ends the load
  std::function<void(std::size_t asked)> progress{};  // after every request
};

struct ReplayedLoad {
  std::size_t asked = 0;
  bool interrupted = false;
  std::string failure;  // why the first request failed that did; empty: none
};

/// Asks all that the load offers, and waits for the answers. Answers have as many tokens as the
/// load says. A request that is refused, or fails, has ended for its user. The recorder is the
/// server's observer; `start`: the load's time 0.
ReplayedLoad replay_load(OfferedLoad& load, engine::Completions& server, LoadPrompts& prompts,
                         LoadRecorder& recorder, std::chrono::steady_clock::time_point start,
                         const ReplayOptions& options);

}  // namespace rigcast::validation
