#include "perfmodel/cost/block_attention.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

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

bool is_quantized(QuantFormat type) { return info(type).block_elements > 1; }

// The mean elements of a key and of a value.
double dim_of(const OpTraffic& t) { return t.flops_of_score / 4; }

double prompt_flops(const OpTraffic& t) { return t.attention_flops - t.single_flops; }

// Rows of queries of a KV head, of one prompt.
double prompt_rows(const StepContext& s, const OpTraffic& t, TokenCount tokens) {
  return (double(tokens) - t.single_tokens) / t.prompts * double(s.model.heads) /
         heads_of_cache(s, t);
}

// The kernels of warpgroups, if they compute this attention; otherwise nullptr.
const WarpgroupAttention* warpgroups(const StepContext& s, const OpTraffic& t, TokenCount tokens,
                                     const BlockAttention& gpu) {
  const BlockEfficiency& blocks = *s.runtime.blocks;
  if (!blocks.warpgroup_attention || !gpu.has_blocks || gpu.units <= 0) return nullptr;
  const WarpgroupAttention& w = *blocks.warpgroup_attention;
  const bool quantized = is_quantized(s.kv.types.k);
  const bool fits = quantized == is_quantized(s.kv.types.v) && (!quantized || w.convert) &&
                    dim_of(t) <= w.max_dim.value &&
                    prompt_rows(s, t, tokens) >= blocks.attention_rows.value &&
                    t.prompt_keys / t.prompts >= w.min_keys.value;
  return fits ? &w : nullptr;
}

// Blocks of a prompt go over the keys of their rows one after the other. Keys are of all prompts.
struct Blocks {
  double count = 0;
  double most_keys = 0, mean_keys = 0;  // of a block
  double value_parts = 1;               // blocks that share a head's values
};

Blocks blocks_of(const StepContext& s, const OpTraffic& t, TokenCount tokens, bool warpgroups) {
  const auto& known = s.runtime.blocks->wide_head_attention;
  const bool wide = !warpgroups && known && dim_of(t) > known->above.value;
  const double rows = prompt_rows(s, t, tokens), heads = heads_of_cache(s, t);
  const double of_block = (wide ? known->rows : s.runtime.blocks->attention_rows).value;
  const double value_parts = wide ? std::ceil(dim_of(t) / known->values.value) : 1.0;
  const double pairs = prompt_flops(t) / t.flops_of_score;  // of a query and a key
  return {std::ceil(rows / of_block) * heads * value_parts, t.prompt_keys, pairs / (rows * heads),
          value_parts};
}

// The time of the blocks, of which `splits` share the keys of one.
Seconds time_of_blocks(const StepContext& s, const OpTraffic& t, TokenCount tokens,
                       const BlockAttention& gpu, const WarpgroupAttention* w, double splits) {
  const BlockEfficiency& blocks = *s.runtime.blocks;
  const Blocks all = blocks_of(s, t, tokens, w != nullptr);
  if (w) {
    // Blocks of a smaller head are as wide as these.
    const auto width = double(std::bit_ceil(std::uint64_t(std::max(64.0, std::ceil(dim_of(t))))));
    const Seconds products = w->key.value + w->step.value * width;
    const bool converts = is_quantized(s.kv.types.k);
    const Seconds of_key =
        converts ? std::max(products, w->convert->value * (2 * width)) : products;
    const double rounds = std::ceil(all.count / gpu.units);
    return std::max(gpu.at_full_rate * (prompt_flops(t) / t.attention_flops),
                    of_key * (std::max(all.most_keys, all.mean_keys * rounds) / splits));
  }
  // A block has all elements of keys, and its part of those of values.
  const double of_value = dim_of(t) / all.value_parts;
  const double converted = (is_quantized(s.kv.types.k) ? dim_of(t) : 0.0) +
                           (is_quantized(s.kv.types.v) ? of_value : 0.0);
  const Seconds of_key = blocks.attention_key.value +
                         blocks.attention_step.value * ((dim_of(t) + of_value) / 2) +
                         blocks.quantized_key.value * converted;
  const double repeated = (1 + all.value_parts) / 2;  // scores
  const Seconds products = gpu.full * (repeated * prompt_flops(t) / t.attention_flops) /
                           wave_efficiency_of_blocks(all.count, gpu.units);
  return std::max(products / (converted > 0 ? blocks.quantized_cache.value : 1.0),
                  of_key * all.most_keys / splits);
}

}  // namespace

Seconds block_attention_time(const StepContext& s, const OpTraffic& t, TokenCount tokens,
                             const BlockAttention& gpu) {
  if (prompt_flops(t) <= 0 || t.prompts <= 0) return {};
  const WarpgroupAttention* const w = warpgroups(s, t, tokens, gpu);
  const double splits =
      attention_splits(*s.runtime.blocks, gpu.units, blocks_of(s, t, tokens, w != nullptr).count,
                       t.prompt_keys / t.prompts);
  const Seconds whole = time_of_blocks(s, t, tokens, gpu, w, splits);
  if (splits <= 1) return whole;
  // Results of splits are written and read, by one more kernel.
  const double results =
      (double(tokens) - t.single_tokens) * splits * double(s.model.heads) * (dim_of(t) + 2);
  return whole + Bytes{8 * results} / gpu.bandwidth + gpu.gap * t.prompts;
}

}  // namespace rigcast
