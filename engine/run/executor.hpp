#pragma once
// Runs a model: tokens in, logits out, keys and values kept. On which device is another matter.

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

  /// Of the host, that compute: their time is what a busy machine takes away.
  virtual int threads() const = 0;
  virtual const Model& model() const = 0;
  /// Bytes of weights and cache that were read and written since the last call of this.
  virtual MovedBytes take_bytes() = 0;
  /// What weights, cache and buffers take of every GPU that is used, now.
  virtual std::vector<DeviceMemory> gpus() const { return {}; }
  /// The same of the host's memory. Capacity: the limit; 0: none.
  virtual DeviceMemory host() const = 0;
  /// Activities are recorded while this is set; nullptr: nothing is.
  void record_into(Recorder* recorder) { recorder_ = recorder; }

 protected:
  Recorder* recorder_ = nullptr;
};

/// What an account of the host's memory holds, itemised as reports are.
DeviceMemory host_memory(const Ram& ram);

/// Samples, and records that.
std::int32_t sample(Sampler& sampler, std::span<const float> logits, TokenCount cached,
                    Recorder* recorder);

}  // namespace rigcast::engine
