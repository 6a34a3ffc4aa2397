#include "perfmodel/request_batches.hpp"

#include <algorithm>
#include <set>

namespace rigcast {

RequestBatches::RequestBatches(const StepContext& s, const Workload& workload)
    : depth_(workload.depth),
      prompt_(workload.prompt_tokens),
      ubatch_(s.settings.ubatch),
      kv_padding_(s.runtime.memory.kv_padding) {
  if (!s.model.window) return;
  window_ = s.model.window->tokens;
  window_cells_ = read_cells(*window_ + ubatch_, kv_padding_);
}

Batch RequestBatches::token(TokenCount cached) const { return prompt_part(cached - 1, 1); }

Batch RequestBatches::prompt_part(TokenCount cached, TokenCount tokens) const {
  Batch batch{{Sequence{cached, tokens, depth_, prompt_}}, kv_padding_};
  batch.window_cells = window_cells_;
  return batch;
}

std::int64_t RequestBatches::ubatch_count() const { return (prompt_ + ubatch_ - 1) / ubatch_; }

Batch RequestBatches::ubatch(std::int64_t index) const {
  const TokenCount done = index * ubatch_;
  return prompt_part(depth_ + done, std::min(ubatch_, prompt_ - done));
}

std::vector<std::int64_t> RequestBatches::sampled_ubatches(std::int64_t samples) const {
  const std::int64_t count = ubatch_count();
  std::set<std::int64_t> at;
  const bool all = count - 1 <= samples;
  for (std::int64_t k = 0; k < (all ? count - 1 : samples); ++k)
    at.insert(all ? k : (count - 2) * k / (samples - 1));
  if (window_ && !all) {
    const std::int64_t full = (*window_ - depth_) / ubatch_;
    for (const std::int64_t i : {full - 1, full, full + 1})
      if (i > 0 && i < count - 2) at.insert(i);
  }
  return {at.begin(), at.end()};
}

}  // namespace rigcast
