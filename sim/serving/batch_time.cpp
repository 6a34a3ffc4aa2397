#include "sim/serving/batch_time.hpp"

#include <algorithm>
#include <utility>

#include "perfmodel/overlap.hpp"
#include "perfmodel/step.hpp"

namespace rigcast {

BatchTime::BatchTime(const Scenario& scenario, Placement placement, MemoryPlan memory)
    : s_(scenario), placement_(std::move(placement)), memory_(std::move(memory)) {}

Seconds BatchTime::of(const std::vector<SequencePart>& parts) const {
  Seconds sum;
  std::vector<SequencePart> ubatch;
  TokenCount room = s_.settings.ubatch;
  const auto compute = [&] {
    sum += pass(ubatch);
    ubatch.clear();
    room = s_.settings.ubatch;
  };
  for (SequencePart part : parts) {
    while (part.tokens > room) {
      ubatch.push_back({part.cached, room, false});
      part.cached += room;
      part.tokens -= room;
      compute();
    }
    ubatch.push_back(part);
    room -= part.tokens;
    if (room == 0) compute();
  }
  if (!ubatch.empty()) compute();
  return sum;
}

Seconds BatchTime::pass(const std::vector<SequencePart>& parts) const {
  const TokenCount half_cell = (s_.runtime.memory.kv_padding - 1) / 2;
  std::vector<Sequence> sequences;
  sequences.reserve(parts.size());
  bool decodes = true, logits = false;
  for (const SequencePart& part : parts) {
    sequences.push_back({part.cached + half_cell, part.tokens});
    decodes = decodes && part.tokens == 1;
    logits = logits || part.has_logits;
  }
  Batch batch(std::move(sequences), 1);
  if (s_.model.window)
    batch.window_cells = read_cells(s_.model.window->tokens + s_.settings.ubatch, 1);
  const Step step = decodes ? decode_step(s_, placement_, memory_, batch)
                            : prefill_step(s_, placement_, memory_, batch, logits);
  return steady_period(s_, step);
}

}  // namespace rigcast
