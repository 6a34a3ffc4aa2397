#pragma once
// The interface of an executor, which runs a model on some backend: tokens in, logits out, keys and
// values kept.

#include <cstdint>
#include <span>

#include "engine/memory/ram.hpp"
#include "engine/run/any_executor.hpp"
#include "engine/run/sampler.hpp"
#include "report/trace.hpp"

namespace rigcast::engine {

/// Which tokens of a call get logits.
enum class Logits { kNone, kLast, kAll };

class Executor : public AnyExecutor {
 public:
  /// Appends the tokens to the context. Returns a row of the vocabulary's width for every token
  /// that gets logits; valid until the next call. Ids are below the vocabulary's size. Throws
  /// std::bad_alloc or ShortOfMemory when the cache or buffers cannot grow, and Interrupted once
  /// the flag that it was made with asks for that. What was cached before is then still there, as
  /// far as truncate() can keep it, none of these tokens is, and the executor goes on as if it had
  /// not been called.
  virtual std::span<const float> forward(std::span<const std::int32_t> tokens, Logits which) = 0;
  /// Appends one token and samples the next from its logits.
  virtual std::int32_t decode(std::int32_t token, Sampler& sampler);
  /// Tells that up to `tokens` calls of decode() follow, each with the id that the one before has
  /// returned: an executor may compute a token before it is asked for. Nothing else changes by it.
  virtual void expect(TokenCount /*tokens*/) {}

  virtual TokenCount cached() const = 0;
  /// Forgets all tokens but the first `tokens`. Layers with a window may keep the newest alone:
  /// where they no longer have those that the next token would attend to, all tokens are forgotten,
  /// and have to be computed again. See cached().
  virtual void truncate(TokenCount tokens) = 0;
  /// Puts `tokens` tokens of random keys and values behind the cached ones: a depth to decode at,
  /// without its prefill.
  virtual void fill(TokenCount tokens) = 0;
};

/// The contents of a host account, itemised as in reports.
DeviceMemory host_memory(const Ram& ram);

/// Throws MachineError that names the first logit that is not a number, if one is: a maximum would
/// skip it, and the answer would continue with whatever is left.
void check_nan(std::span<const float> logits);

/// Samples a token, and records the activity. Throws as check_nan().
std::int32_t sample(Sampler& sampler, std::span<const float> logits, TokenCount cached,
                    Recorder* recorder);

}  // namespace rigcast::engine
