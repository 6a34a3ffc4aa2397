#pragma once
// The batches of one user's request: the ubatches of its prompt, then one token at a time.

#include <cstdint>
#include <optional>
#include <vector>

#include "core/model/traffic.hpp"
#include "perfmodel/context/step_context.hpp"

namespace rigcast {

class RequestBatches {
 public:
  /// Keeps no reference to either.
  RequestBatches(const StepContext& context, const Workload& workload);

  /// The batch of the output token that is decoded when the cache holds `cached` tokens, itself
  /// included.
  Batch token(TokenCount cached) const;
  /// A batch of `tokens` tokens of the prompt, after `cached`.
  Batch prompt_part(TokenCount cached, TokenCount tokens) const;

  /// The number of the prompt's ubatches.
  std::int64_t ubatch_count() const;
  /// The ubatch at `index` in [0, ubatch_count()). The last one may be shorter than the others.
  Batch ubatch(std::int64_t index) const;
  /// True for the ubatch whose last token has logits.
  bool is_last(std::int64_t index) const { return index + 1 == ubatch_count(); }
  /// Chooses the ubatches of a long prompt to compute, in order: at most `samples` of all but the
  /// last, evenly spaced with the first and the last among them, and those around the one in which
  /// a sliding window fills up, where time bends. The last ubatch has the head and may be shorter.
  std::vector<std::int64_t> sampled_ubatches(std::int64_t samples) const;

 private:
  TokenCount depth_ = 0, prompt_ = 0, ubatch_ = 0, kv_padding_ = 0;
  std::optional<TokenCount> window_;  // of the model's layers with a sliding window
  TokenCount window_cells_ = 0;       // of such a layer's cache
};

}  // namespace rigcast
