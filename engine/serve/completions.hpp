#pragma once
// What a server asks of the engine: completions of prompts, many at once, each of which can be
// cancelled.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/units.hpp"
#include "engine/run/sampler.hpp"

namespace rigcast::engine {

enum class FinishReason {
  kStop,       // a token that ends the answer
  kLength,     // as many tokens as asked for, or the end of the context
  kCancelled,  // by cancel(), or since the server stops
  kFailed,     // CompletionEnd::error says why
};

struct CompletionEnd {
  FinishReason reason = FinishReason::kStop;
  TokenCount prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  std::string error{};
};

struct CompletionRequest {
  std::vector<std::int32_t> prompt{};  // at least one token
  TokenCount max_tokens = 0;           // at least 1
  Sampling sampling{};
  std::vector<std::int32_t> stop_ids{};  // tokens that end the answer; they are not part of it
  /// Called on the engine's thread; they return quickly and do not throw. on_end is called once,
  /// after the last token, unless submit() failed.
  std::function<void(std::span<const std::int32_t> ids)> on_tokens{};
  std::function<void(const CompletionEnd&)> on_end{};
};

using CompletionId = std::uint64_t;

/// Counters since the start, and gauges, for a page of metrics.
struct CompletionsState {
  int running = 0, waiting = 0;
  int blocks = 0, blocks_used = 0;
  int disk_writes = 0;  // blocks that wait to be written there
  std::uint64_t completed = 0, cancelled = 0, failed = 0, refused = 0, preempted = 0;
  std::uint64_t prompt_tokens = 0, cached_prompt_tokens = 0, output_tokens = 0, steps = 0;
  std::uint64_t disk_prompt_tokens = 0;  // of the cached ones, those that came back from disk
};

class Completions {
 public:
  virtual ~Completions() = default;

  /// Queues a request; returns at once. Fails if the queue is full (ErrorKind::kDoesNotFit), the
  /// prompt and its answer exceed the context, or a token is not in the vocabulary. Any thread may
  /// call this and the functions below.
  virtual Result<CompletionId> submit(CompletionRequest request) = 0;
  /// Ends a request with kCancelled, unless it has ended. Returns at once.
  virtual void cancel(CompletionId id) = 0;
  /// The same with kStop: its client has all that it asked for, such as what comes before a text.
  virtual void finish(CompletionId id) = 0;
  virtual CompletionsState state() const = 0;
  virtual TokenCount context() const = 0;  // the most tokens of a prompt and its answer
};

}  // namespace rigcast::engine
