#include "perfmodel/cost/block_products.hpp"

#include <algorithm>

#include "core/hardware/gpu_architecture.hpp"
#include "core/scenario/batch_limits.hpp"
#include "perfmodel/blocks/between_products.hpp"
#include "perfmodel/blocks/wave_quantization.hpp"
#include "perfmodel/blocks/wide_tiles.hpp"
#include "perfmodel/cost/kernel_cost.hpp"
#include "perfmodel/cost/matmul_split.hpp"

namespace rigcast {
namespace {

// Matrix units multiply 8, 16, 32 or more columns at once; fewer tokens take as long.
double multiplied_columns(double tokens, double most) {
  double columns = 8;
  while (columns < std::min(tokens, most)) columns *= 2;
  return std::max(columns, tokens);
}

bool takes_wide_tiles(const StepContext& s, const GpuPart& gpu, const OpTraffic& t,
                      TokenCount tokens) {
  const BlockEfficiency& blocks = *s.runtime.blocks;
  // Of an FFN without a gate long batches are written out.
  return blocks.is_of(gpu.architecture) && s.model.gated_ffn &&
         has_wide_tiles(blocks, t, double(tokens));
}

// Time of a library's products with FP16 weights, which it reads while it computes; `share`: of the
// FLOPs. A profile's share of the rate may be that of GPUs with less power: none passes the rate.
Seconds block_float_time(const StepContext& s, const GpuPart& gpu, const OpTraffic& t, double n,
                         Bytes fp16, double share) {
  const double tile = s.runtime.blocks->gemm_tile.value;
  const FlopsPerSecond rate = fp16_rate(gpu);
  const double reached =
      std::min(1.0, s.runtime.gpu_efficiency(gpu).gemm.value * power_share(s, gpu, rate, 1.2));
  const double gemm =
      rate.value * reached * wave_efficiency_of_widths(t, n, {tile, tile, units_of(gpu)});
  return std::max(fp16 / (gpu.bandwidth.value * s.runtime.batch.expand.value),
                  Seconds{t.matmul_flops * share / gemm});
}

// Of quantized weights that one kernel per matrix writes out as FP16. Both pass through VRAM.
Seconds block_written_out_time(const StepContext& s, const GpuPart& gpu, const OpTraffic& t,
                               double n, const MatmulSplit& split) {
  const Bytes fp16{2.0 * split.elements};
  const double share = split.elements > 0 ? 1.0 - split.floats : 0.0;
  const Seconds gaps = kernel_gap(s, gpu) * (share > 0 ? double(t.matrices) : 0.0);
  return (Bytes{split.quant_bytes} + fp16) / (gpu.bandwidth.value * s.runtime.batch.expand.value) +
         block_float_time(s, gpu, t, n, fp16, share) + gaps;
}

// What tiles reach of the rate of those that were measured, where other kernels multiply.
double share_of_other_tiles(const StepContext& s, const GpuPart& gpu, const OpTraffic& t) {
  const BlockEfficiency& blocks = *s.runtime.blocks;
  if (!blocks.other_tiles) return 1.0;
  const double others = blocks.is_of(gpu.architecture) ? untiled_share(t) : 1.0;
  return 1.0 / (1.0 - others + others / blocks.other_tiles->value);
}

// A batch with which tiles reach half of their rate, as a share of that where they were measured.
double half_rate_share(const StepContext& s, const GpuPart& gpu) {
  const BlockEfficiency& blocks = *s.runtime.blocks;
  if (!blocks.half_rate_flops || blocks.is_of(gpu.architecture)) return 1.0;
  return fp16_rate(gpu).value / unit_rate(gpu).value / blocks.half_rate_flops->value;
}

// Of quantized weights that tiles multiply as they lie: as FP16, at half of the rate that the
// profile tells shares of.
Seconds block_tiles_time(const StepContext& s, const GpuPart& gpu, const OpTraffic& t, double n,
                         const MatmulSplit& split) {
  const BatchEfficiency& batch = s.runtime.batch;
  const BlockEfficiency& blocks = *s.runtime.blocks;
  const FlopsPerSecond quants = fp16_rate(gpu) * 2.0;
  const double shared = std::max(t.tokens_per_weight, 1e-9);
  const BlockShape cut{blocks.tile_rows.value, blocks.tile_tokens.value, units_of(gpu)};
  const double tiles = quants.value * s.runtime.gpu_efficiency(gpu).tiles.value *
                       power_share(s, gpu, quants, 0.6) * share_of_other_tiles(s, gpu, t) *
                       (t.routed ? batch.experts.value : wave_efficiency_of_largest(t, n, cut));
  const double half = half_rate_share(s, gpu), widest = blocks.tile_tokens.value;
  const double columns =
      t.routed && blocks.expert_half_rate_batch
          ? columns_of_parts(n, share_of_expert(s), kMaxRoutedTokens,
                             half * blocks.expert_half_rate_batch->value, widest)
          : multiplied_columns(shared, widest) + half * batch.tile_half_rate_batch.value;
  return Seconds{t.matmul_flops / shared * columns * split.quants_scaled / tiles};
}

}  // namespace

FlopsPerSecond fp16_rate(const GpuPart& gpu) {
  return gpu.fp16_tensor ? gpu.fp16_tensor->value : gemm_rate(gpu).value;
}

bool writes_out_weights(const StepContext& s, const GpuPart& gpu, const OpTraffic& t,
                        TokenCount tokens) {
  const BlockEfficiency& blocks = *s.runtime.blocks;
  if (t.routed) return false;
  if (std::ranges::count(blocks.writes_out, gpu.architecture) > 0) return true;
  return double(tokens) >= blocks.fp16_from_batch.value && !takes_wide_tiles(s, gpu, t, tokens);
}

double tile_read_time(const StepContext& s, const GpuPart& gpu, const OpTraffic& t,
                      TokenCount tokens) {
  const auto& blocks = s.runtime.blocks;
  if (!blocks || has_token_kernels(s, tokens) || writes_out_weights(s, gpu, t, tokens)) return 1;
  double quants = 0;
  for (std::size_t f = 0; f < t.weight_bytes_by_format.size(); ++f)
    if (format_group(QuantFormat(f)) != FormatGroup::kFloat) quants += t.weight_bytes_by_format[f];
  const double all = t.weight_bytes();
  return all > 0 ? 1 + quants / all * (1 / blocks->tile_read.value - 1) : 1;
}

BlockProducts block_products(const StepContext& s, const GpuPart& gpu, const OpTraffic& t,
                             TokenCount tokens) {
  const MatmulSplit split = split_matmul(s, gpu, t);
  const double n = double(tokens);
  const Seconds of_floats =
      block_float_time(s, gpu, t, n, Bytes{t.weight_bytes() - split.quant_bytes}, split.floats);
  if (writes_out_weights(s, gpu, t, tokens))
    return {of_floats + block_written_out_time(s, gpu, t, n, split), {}};
  if (split.floats < 1 && takes_wide_tiles(s, gpu, t, tokens)) {
    const FlopsPerSecond rate = fp16_rate(gpu);
    const WideTilesTime wide = wide_tiles_time(
        *s.runtime.blocks->wide, t, n, {units_of(gpu), rate, power_share(s, gpu, rate, 1.2)});
    return {of_floats + wide.compute * (1 - split.floats), wide.start * (1 - split.floats)};
  }
  const double tiled_kernels = product_kernels(s, t) * (1.0 - split.floats);
  return {of_floats + block_tiles_time(s, gpu, t, n, split),
          s.runtime.blocks->tile_start.value * tiled_kernels};
}

Seconds kernel_gap(const StepContext& s, const GpuPart& gpu) {
  return s.runtime.backends[std::size_t(s.settings.backend)].launch.value *
         (s.runtime.gpu_efficiency(gpu).launch.value * s.runtime.blocks->gap.value);
}

}  // namespace rigcast
