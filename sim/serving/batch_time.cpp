#include "sim/serving/batch_time.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "perfmodel/overlap.hpp"
#include "perfmodel/page_in.hpp"
#include "perfmodel/runtimes/runtime_models.hpp"
#include "perfmodel/step.hpp"

namespace rigcast {
using sim::StepUse;

namespace {

// A layer's products and, behind them, its attention over the cache.
struct Separated {
  StepOp products, attention;
};

Separated separated(const StepContext& s, const StepOp& op) {
  Separated out{op, op};
  OpTraffic& products = out.products.traffic;
  products.kv_read_bytes = products.kv_write_bytes = products.kv_copied_bytes = 0;
  products.attention_flops = products.causal_flops = products.cell_flops = 0;
  products.single_flops = products.single_tokens = 0;
  products.prompts = products.prompt_keys = 0;
  out.products.cost = operation_cost(s, out.products);
  OpTraffic& cache = out.attention.traffic;
  cache.weight_bytes_by_format = {};
  cache.activation_bytes = cache.vector_elements = cache.matmul_flops = 0;
  cache.matrices = 0;
  out.attention.launches = Launches::kNone;
  out.attention.handoffs = 0;
  out.attention.handoff_bytes = {};
  out.attention.cost = operation_cost(s, out.attention);
  return out;
}

// Attention's kernel begins when the projections' products are there. In a step of one kind that
// makes no difference, because both are bound by the same: of prompts and answers together, the
// products of the prompts would hide that the caches of the answers are read. `alike`: of layers
// with the same operations, the first.
void separate_attention(const StepContext& s, const std::vector<int>& alike, Step& step) {
  std::vector<std::optional<Separated>> known(alike.size());
  std::vector<StepOp> ops;
  ops.reserve(step.ops.size() + alike.size());
  for (StepOp& op : step.ops) {
    if (op.kind != ActivityKind::kAttention || op.device == kHost || op.fetch || op.host_part) {
      ops.push_back(std::move(op));
      continue;
    }
    auto& of_class = known[std::size_t(alike[std::size_t(op.layer)])];
    if (!of_class) of_class = separated(s, op);
    ops.push_back(std::move(op));
    ops.back().cost = of_class->products.cost;
    ops.push_back(of_class->attention);
  }
  step.ops = std::move(ops);
}

// What the operations move where copies of the cache pass, too: all that is exchanged, weights that
// are copied before their operation begins, and what the CPU reads where it waits for RAM.
StepUse moved_by(const StepContext& s, const Step& step) {
  StepUse use;
  for (const StepOp& op : step.ops) {
    use.exchanged += exchanged_bytes(s, op);
    if (op.fetch && !op.fetch->early)
      use.streamed += h2d_rate(s, op.device, false) * (fetch_time(s, op) - op.fetch->start);
    if (op.device == kHost && is_memory_bound(s, op.cost, kHost))
      use.read += op.cost.equivalent_bytes;
  }
  return use;
}

// What each GPU but the first one takes of the step, as a stage of a pipeline: what the stage
// before it sends, its operations, and the sampling behind the last one. The host's work is the
// first one's.
void add_later_stages(const StepContext& s, const Step& step, StepUse& use) {
  for (const StepOp& op : step.ops)
    if (op.device > 0)
      use.later_stages[std::size_t(op.device) - 1] += handoff_time(s, op) + time_alone(s, op);
  const std::size_t last = s.rig.gpus.size() - 1;
  use.later_stages[last - 1] += step.sample;
}

}  // namespace

BatchTime::BatchTime(const Scenario& scenario, Placement placement, MemoryPlan memory)
    : s_(scenario),
      placement_(std::move(placement)),
      memory_(std::move(memory)),
      token_layers_(alike_layers(s_, placement_, Phase::kDecode)),
      prompt_layers_(alike_layers(s_, placement_, Phase::kPrefill)) {}

StepUse BatchTime::use_of(const std::vector<SequencePart>& parts) const {
  StepUse sum;
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

TokenCount BatchTime::cold_tokens(TokenCount count, TokenCount cached) const {
  const std::vector<Sequence> sequences(std::size_t(count), {cached, 1});
  return rigcast::cold_tokens(s_, memory_, Batch(sequences, 1));
}

Paging BatchTime::paging(TokenCount count, TokenCount cached) const {
  if (!s_.memory || count <= 0) return {};
  const std::vector<Sequence> sequences(std::size_t(count), {cached, 1});
  return page_in(s_, placement_, memory_, Batch(sequences, 1));
}

StepUse BatchTime::pass(const std::vector<SequencePart>& parts) const {
  const TokenCount half_cell = (s_.runtime.memory.kv_padding - 1) / 2;
  std::vector<Sequence> sequences;
  sequences.reserve(parts.size());
  bool decodes = true, prompts = true, logits = false, ends_prompt = false;
  TokenCount without_logits = 0;
  for (const SequencePart& part : parts) {
    sequences.push_back({part.cached + half_cell, part.tokens});
    (part.tokens == 1 ? prompts : decodes) = false;
    logits = logits || part.has_logits;
    without_logits += part.has_logits ? 0 : 1;
    ends_prompt = ends_prompt || (part.tokens > 1 && part.has_logits);
  }
  Batch batch(std::move(sequences), 1);
  batch.ends_prompt = ends_prompt;
  batch.without_logits = without_logits;
  if (s_.model.window)
    batch.window_cells = read_cells(s_.model.window->tokens + s_.settings.ubatch, 1);
  const std::vector<int>& alike = decodes ? token_layers_ : prompt_layers_;
  const StepGrouping grouping{1, &alike};
  Step step = decodes ? decode_step(s_, placement_, memory_, batch, grouping)
                      : prefill_step(s_, placement_, memory_, batch, logits, grouping);
  if (!decodes && !prompts) separate_attention(s_, alike, step);
  if (runtime_model(s_.runtime).samples_on_gpu()) step.logits = {};
  StepUse use = moved_by(s_, step);
  use.paged = step.page_in.files + step.page_in.swapped;
  use.full = step.page_in.reclaim == Reclaim::kFull;
  use.time = steady_period(s_, step);
  if (s_.rig.between_stages) add_later_stages(s_, step, use);
  return use;
}

}  // namespace rigcast
