#pragma once
// The interface of an executor, which runs a model on some backend: tokens in, logits out, keys and
// values kept.

#include <cstdint>
#include <span>
#include <vector>

#include "core/scenario/device_memory.hpp"
#include "engine/memory/ram.hpp"
#include "engine/model/model.hpp"
#include "engine/run/recorder.hpp"
#include "engine/run/sampler.hpp"
#include "report/trace.hpp"

namespace rigcast::engine {

/// Which tokens of a call get logits.
enum class Logits { kNone, kLast, kAll };

class Executor {
 public:
  virtual ~Executor() = default;

  /// Appends the tokens to the context. Returns a row of the vocabulary's width for every token
  /// that gets logits; valid until the next call. Ids are below the vocabulary's size. Throws
  /// std::bad_alloc or ShortOfMemory when the cache or buffers cannot grow, and Interrupted once
  /// the flag that it was made with asks for that. What was cached before is then still there, none
  /// of these tokens is, and the executor goes on as if it had not been called.
  virtual std::span<const float> forward(std::span<const std::int32_t> tokens, Logits which) = 0;
  /// Appends one token and samples the next from its logits.
  virtual std::int32_t decode(std::int32_t token, Sampler& sampler);

  virtual TokenCount cached() const = 0;
  /// Forgets all tokens but the first `tokens`.
  virtual void truncate(TokenCount tokens) = 0;
  /// Puts `tokens` tokens of random keys and values behind the cached ones: a depth to decode at,
  /// without its prefill.
  virtual void fill(TokenCount tokens) = 0;

  /// Host threads that compute: a busy machine takes time away from them.
  virtual int threads() const = 0;
  virtual const Model& model() const = 0;
  /// Bytes of weights and cache that were read and written since the last call of this.
  virtual MovedBytes take_bytes() = 0;
  /// Memory of weights, cache and buffers on every GPU in use, now.
  virtual std::vector<DeviceMemory> gpus() const { return {}; }
  /// Host memory of weights, cache and buffers. Capacity: the limit; 0: none.
  virtual DeviceMemory host() const = 0;
  /// Activities are recorded while this is set; nullptr: nothing is.
  void record_into(Recorder* recorder) { recorder_ = recorder; }

 protected:
  Recorder* recorder_ = nullptr;
};

/// The contents of a host account, itemised as in reports.
DeviceMemory host_memory(const Ram& ram);

/// Samples a token, and records the activity.
std::int32_t sample(Sampler& sampler, std::span<const float> logits, TokenCount cached,
                    Recorder* recorder);

}  // namespace rigcast::engine
