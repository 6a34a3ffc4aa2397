#include "perfmodel/cost/block_attention.hpp"

#include <algorithm>
#include <cmath>

#include "perfmodel/blocks/wave_quantization.hpp"
#include "perfmodel/cost/kernel_cost.hpp"

namespace rigcast {
namespace {

// The blocks that share the keys of one, where fewer than units have rows.
double attention_splits(const BlockEfficiency& blocks, double units, double cut, double keys) {
  if (blocks.attention_split_keys.value <= 0 || units <= 0) return 1;
  const double most = std::floor(keys / blocks.attention_split_keys.value);
  return std::max(1.0, std::min(std::floor(units / cut), most));
}

}  // namespace

Seconds block_attention_time(const StepContext& s, const OpTraffic& t, TokenCount tokens,
                             const BlockAttention& gpu) {
  const double of_prompts = t.attention_flops - t.single_flops;
  if (of_prompts <= 0 || t.prompts <= 0) return {};
  const BlockEfficiency& blocks = *s.runtime.blocks;
  const double heads = heads_of_cache(s, t);
  const double prompt_tokens = (double(tokens) - t.single_tokens) / t.prompts;
  const double rows = prompt_tokens * double(s.model.heads) / heads;
  const double cut = std::ceil(rows / blocks.attention_rows.value) * heads;
  const Seconds products =
      gpu.full * (of_prompts / t.attention_flops) / wave_efficiency_of_blocks(cut, gpu.units);
  const bool quantized = info(s.kv.types.k).block_elements > 1;
  const double dim = t.flops_of_score / 4;  // the mean of a key's and of a value's
  const Seconds of_key = blocks.attention_key.value + blocks.attention_step.value * dim;
  const double splits = attention_splits(blocks, gpu.units, cut, t.prompt_keys / t.prompts);
  const Seconds whole = std::max(products, of_key * t.prompt_keys / splits) /
                        (quantized ? blocks.quantized_cache.value : 1.0);
  if (splits <= 1) return whole;
  // Results of splits are written and read, by one more kernel.
  const double results = prompt_tokens * t.prompts * splits * double(s.model.heads) * (dim + 2);
  return whole + Bytes{8 * results} / gpu.bandwidth + gpu.gap * t.prompts;
}

}  // namespace rigcast
