#include "perfmodel/blocks/between_products.hpp"

#include <algorithm>
#include <cmath>

#include "core/hardware/gpu_architecture.hpp"

namespace rigcast {
namespace {

// A state decays or is replaced token by token, and what a token finds in it comes from the one
// before: a token takes its time however many blocks share the state's rows.
Seconds scan_time(const StepContext& s, const GpuPart& gpu, const OpTraffic& t) {
  if (t.scanned_values <= 0) return {};
  const BlockEfficiency& blocks = *s.runtime.blocks;
  const double values = double(s.model.recurrent->state_bytes) / sizeof(float);
  const bool scans = !is_short_convolution(s.model);
  const double tokens = scans ? t.scanned_values / values : 0.0;
  return blocks.scan_step.value * tokens +
         Seconds{t.scanned_values * blocks.scan_cycles.value / unit_rate(gpu).value};
}

// Mirrors batch_logits (engine/kernels/cuda/batch/experts_batch): a block has some experts' rows
// and some tokens, and goes over the columns. A unit has room for several blocks.
double router_waves(const StepContext& s, const GpuPart& gpu, double tokens) {
  constexpr double kExpertsOfBlock = 16, kTokensOfBlock = 8, kBlocksOfUnit = 4;
  if (!gpu.units) return 1;
  const double blocks =
      std::ceil(s.model.moe->experts / kExpertsOfBlock) * std::ceil(tokens / kTokensOfBlock);
  return std::max(1.0, std::ceil(blocks / (kBlocksOfUnit * double(*gpu.units))));
}

// A router's product, the choice of a token's experts, one after the other, and the order of all
// choices by expert, for which the block of each goes over all of them.
Seconds routing_time(const StepContext& s, const GpuPart& gpu, const OpTraffic& t) {
  if (t.choices <= 0) return {};
  const BlockEfficiency& blocks = *s.runtime.blocks;
  const double used = std::max(1, s.model.moe->experts_used);
  return blocks.router_column.value *
             (double(s.model.hidden) * router_waves(s, gpu, t.choices / used)) +
         blocks.choice_round.value * used + blocks.sorted_choice.value * t.choices;
}

// Elements that kernels between products move. Products of experts leave what is between gate and
// down where the next one reads it; their inputs are gathered before, and their results added
// after.
double moved_elements(const StepContext& s, const OpTraffic& t) {
  if (!t.routed || !s.model.moe) return t.vector_elements;
  const double outer = 2.0 * double(s.model.hidden);
  const double inner = (s.model.gated_ffn ? 3.0 : 2.0) * double(s.model.moe->expert_ffn);
  return t.vector_elements * outer / (outer + inner);
}

}  // namespace

// A convolution keeps the inputs of as many tokens as published kernels have, or fewer.
bool is_short_convolution(const ModelSpec& model) {
  constexpr std::int64_t kMaxConvolvedTokens = 4;
  return model.recurrent->state_bytes <= 4 * kMaxConvolvedTokens * model.hidden;
}

Seconds between_products_time(const StepContext& s, const GpuPart& gpu, const OpTraffic& t) {
  const auto& blocks = s.runtime.blocks;
  if (!blocks)
    return Bytes{t.vector_elements * s.runtime.batch.vector_bytes.value} / gpu.bandwidth.value;
  return Bytes{moved_elements(s, t) * blocks->vector_bytes.value} / gpu.bandwidth.value +
         scan_time(s, gpu, t) + routing_time(s, gpu, t);
}

double product_kernels(const StepContext& s, const OpTraffic& t) {
  constexpr double kInAndOut = 2;  // of experts, of shared ones, of a recurrent layer's mixer
  if (t.routed) return kInAndOut;
  if (t.choices > 0) return s.model.moe->shared_ffn > 0 ? kInAndOut : 0.0;
  if (s.model.mla) return double(t.matrices);
  const bool mixes = s.model.recurrent && t.kv_write_bytes > 0;
  double kernels = 0;
  for (std::size_t i = 0; i < t.products.size(); ++i)
    if (t.products[i].rows > 0) kernels += mixes && i == WeightGroup::kOther ? kInAndOut : 1.0;
  return kernels;
}

}  // namespace rigcast
