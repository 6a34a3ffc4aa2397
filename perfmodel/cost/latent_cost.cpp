#include "perfmodel/cost/latent_cost.hpp"

#include <algorithm>
#include <cmath>

namespace rigcast {

Seconds latent_attention_time(const StepContext& s, const GpuPart& gpu, const OpTraffic& t) {
  const BlockEfficiency& blocks = *s.runtime.blocks;
  const double of_prompts = t.attention_flops - t.single_flops;
  if (of_prompts <= 0 || t.prompts <= 0) return {};
  constexpr double kBlocksOfUnit = 2;
  const double groups = std::ceil(double(s.model.heads) / blocks.latent_heads->value);
  const double keys = of_prompts / (t.flops_of_score * double(s.model.heads)) * groups;
  const double at_once = kBlocksOfUnit * std::max(1.0, double(gpu.units.value_or(0)));
  const bool quantized = info(s.kv.types.k).block_elements > 1;
  return blocks.latent_key->value * std::max(keys / at_once, t.prompt_keys / t.prompts) /
         (quantized ? blocks.quantized_cache.value : 1.0);
}

double latent_reads(const StepContext& s, bool batched) {
  const auto& blocks = s.runtime.blocks;
  if (!s.model.mla || !blocks || !blocks->latent_heads || batched) return 1;
  return std::ceil(double(s.model.heads) / blocks->latent_heads->value);
}

}  // namespace rigcast
