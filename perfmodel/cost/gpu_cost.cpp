#include "perfmodel/cost/gpu_cost.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/hardware/gpu_architecture.hpp"
#include "perfmodel/blocks/between_products.hpp"
#include "perfmodel/blocks/wave_quantization.hpp"
#include "perfmodel/cost/block_attention.hpp"
#include "perfmodel/cost/block_products.hpp"
#include "perfmodel/cost/kernel_cost.hpp"
#include "perfmodel/cost/latent_cost.hpp"
#include "perfmodel/cost/matmul_split.hpp"

namespace rigcast {
namespace {

// Time in which the query heads of one token of each sequence multiply with the cache, `flops` in
// all. Memory reads hide little of it.
Seconds cache_products(const StepContext& s, const GpuPart& gpu, double flops) {
  const auto& decode = s.runtime.decode;
  const bool quantized = info(s.kv.types.k).block_elements > 1;
  const auto& floats = s.model.mla ? decode.kv_cycles_latent : decode.kv_cycles;
  const double cycles = (quantized ? decode.kv_cycles_quant : floats).value *
                        before_changes(s, gpu, ChangedFigure::kKvCycles);
  const Seconds products{flops / 4.0 * cycles / unit_rate(gpu).value};
  const bool starts = quantized && s.runtime.blocks && flops > 0;
  return products + (starts ? s.runtime.blocks->quantized_start.value : Seconds{});
}

// FLOPs of a batch's attention as the backend's kernels compute it: without flash attention, and in
// older builds, over all cells of the cache.
double computed_flops(const StepContext& s, const OpTraffic& t, TokenCount tokens) {
  const BackendEfficiency& b = s.runtime.backends[std::size_t(s.settings.backend)];
  const double since = b.masked_since.value;
  if (since <= 0) return t.attention_flops;
  const bool skips = s.settings.flash_attention && double(tokens) >= b.masked_tokens.value &&
                     s.settings.build_year.value_or(since) >= since;
  if (!skips) return t.cell_flops;
  return b.masked_windows ? t.attention_flops : t.causal_flops;
}

// Without flash attention every score is written, scaled, normalised and read as F32 by separate
// kernels, which nothing hides.
Seconds score_passes(const StepContext& s, const GpuPart& gpu, const OpTraffic& t,
                     TokenCount tokens) {
  if (t.flops_of_score <= 0) return {};
  const double scores = computed_flops(s, t, tokens) / t.flops_of_score;
  return Bytes{s.runtime.batch.score_bytes.value * scores} / gpu.bandwidth.value;
}

bool is_cuda_or_rocm(const StepContext& s) {
  return s.settings.backend == Backend::kCuda || s.settings.backend == Backend::kRocm;
}

// True where the matrix units know floats alone: tiles of quantized weights are multiplied by dot
// products, and long batches are left to the library. See ggml-cuda/mmq.cu,
// ggml_cuda_should_use_mmq().
bool has_float_units_alone(const StepContext& s, const GpuPart& gpu) {
  if (!gpu.fp16_tensor || gpu.int8_tensor || s.runtime.low_precision) return false;
  const GpuArchitecture* known = gpu_architecture(gpu.architecture);
  const bool volta = known && !known->int8_units;
  return s.settings.backend == Backend::kRocm || (s.settings.backend == Backend::kCuda && volta);
}
constexpr TokenCount kDotTokens = 64;  // from which on a library's FP16 products are faster

// True if weights are written out as FP16 before they are multiplied: of CUDA's GPUs without 8-bit
// dot products, by older builds of all with matrix units, and where those know floats alone, for as
// many tokens as share a weight.
bool expands_weights(const StepContext& s, const GpuPart& gpu, const OpTraffic& t,
                     TokenCount tokens) {
  const double shared = t.routed ? t.tokens_per_weight : double(tokens);
  if (has_float_units_alone(s, gpu) && shared >= double(kDotTokens)) return true;
  if (s.settings.backend != Backend::kCuda || s.runtime.low_precision) return false;
  const GpuArchitecture* known = gpu_architecture(gpu.architecture);
  if (known && !known->int8_dot) return true;
  const double since = s.runtime.tiles_since.value;
  return gpu.fp16_tensor && s.settings.build_year.value_or(since) < since;
}

// The rate of quantized tiles: of the matrix units, or of dot products where those know floats
// alone.
double rate_of_tiles(const StepContext& s, const GpuPart& gpu) {
  const bool dots = has_float_units_alone(s, gpu) && gpu.fp32;
  return (dots ? dot_rate(gpu) : tile_rate(gpu)).value.value;
}

// Seconds per FLOP of quantized products at full rate. Matrix units multiply the tiles; every unit
// then multiplies their sums with the scales of the blocks, which takes as long on all of them, so
// that a GPU with fast matrix units reaches a smaller share of their rate. A format's factor is of
// that work.
double tile_seconds(const StepContext& s, const GpuPart& gpu, const MatmulSplit& split,
                    double tiles) {
  const double rate = rate_of_tiles(s, gpu) * tiles;
  if (!gpu.int8_tensor) return split.quants_scaled / rate;
  const double cycles = s.runtime.batch.tile_cycles.value / 1000;
  if (cycles <= 0) return split.quants_scaled / rate;
  const double by_units = split.quants / rate + split.quants_scaled * cycles / unit_rate(gpu).value;
  if (s.settings.backend != Backend::kRocm || !gpu.fp32) return by_units;
  // ROCm's kernels came to the units of GPUs where they are faster: llama.cpp PR 17576.
  return std::min(by_units, split.quants_scaled / (dot_rate(gpu).value.value * tiles));
}

// The number of experts for which there is a token of a batch.
double experts_hit(const StepContext& s, TokenCount tokens) {
  return s.model.moe->experts * (1.0 - std::pow(1.0 - share_of_expert(s), double(tokens)));
}

// True where experts of a long batch go to the library, one after the other, as its products of
// dense weights do.
bool leaves_experts_to_library(const StepContext& s, const GpuPart& gpu, const OpTraffic& t,
                               TokenCount tokens) {
  return t.routed && has_float_units_alone(s, gpu) && tokens >= kDotTokens;
}

// True where the tokens of one expert are multiplied after those of the other: there, and by older
// builds.
bool loops_over_experts(const StepContext& s, const GpuPart& gpu, const OpTraffic& t,
                        TokenCount tokens) {
  const double since = s.runtime.batch.expert_columns_since.value;
  if (!t.routed || !is_cuda_or_rocm(s) || since <= 0) return false;
  return s.settings.build_year.value_or(since) < since ||
         leaves_experts_to_library(s, gpu, t, tokens);
}

// Launches beside those of the products themselves: a batch's activations are quantized first, and
// partial sums of tiles are added last. The library that multiplies floats is given them as FP16.
double batch_kernels(const StepContext& s, const GpuPart& gpu, const OpTraffic& t,
                     TokenCount tokens) {
  constexpr TokenCount kFloatTokens = 16;  // up to which floats have a kernel of their own
  const BackendEfficiency& backend = s.runtime.backends[std::size_t(s.settings.backend)];
  if (tokens <= kMatVecTokens || s.runtime.blocks) return 0;
  const MatmulSplit split = split_matmul(s, gpu, t);
  const double floats = tokens > kFloatTokens ? backend.float_kernels.value : 0.0;
  double quants = backend.batch_kernels.value;
  if (expands_weights(s, gpu, t, tokens))
    quants = floats > 0 ? 1 + floats : 0;  // as FP16 first, then so
  const double kernels = floats * split.floats + quants * split.quants;
  if (!loops_over_experts(s, gpu, t, tokens)) return kernels * double(t.matrices);
  constexpr double kCopies = 2;  // of an expert's tokens: gathered before, scattered after
  return (experts_hit(s, tokens) * (1 + kernels + kCopies) - 1) * double(t.matrices);
}

// Time in which the host sorts a batch's tokens by expert, as older builds do, and all before they
// leave experts to the library.
Seconds expert_sort_time(const StepContext& s, const GpuPart& gpu, const OpTraffic& t,
                         TokenCount tokens) {
  const auto& prefill = s.runtime.prefill;
  const double until = prefill.expert_sort_until.value;
  if (!t.routed || !is_cuda_or_rocm(s)) return {};
  if (s.settings.build_year.value_or(until) >= until &&
      !leaves_experts_to_library(s, gpu, t, tokens))
    return {};
  const double pairs = double(tokens) * s.model.moe->experts_used;
  return prefill.expert_sort.value * (pairs * s.model.moe->experts * double(t.matrices)) *
         host_clock_factor(s);
}

// The tokens by which the width of a tile of experts is chosen.
double tokens_of_tiles(const StepContext& s, const GpuPart& gpu, double tokens) {
  const BatchEfficiency& batch = s.runtime.batch;
  const double since = batch.expert_widths_since.value;
  const bool by_expert =
      std::ranges::find(batch.expert_widths, gpu.architecture) != batch.expert_widths.end();
  if (!by_expert || s.settings.build_year.value_or(since) < since) return tokens;
  return std::ceil(tokens * share_of_expert(s));
}

// Columns of a tile of experts: of widths in eights, from 48 on in sixteens, the least with which
// so many tokens have as few tiles as with the widest.
double width_of_tile(double widest, double tokens) {
  const double columns = tokens / std::ceil(tokens / widest);
  const double step = columns > 40 ? 16 : 8;
  return std::min(widest, std::ceil(columns / step) * step);
}

// Columns that are multiplied for each column of an expert's tokens; nullopt: no more than there
// are. Tiles are whole, and experts get tokens by chance.
std::optional<double> expert_columns(const StepContext& s, const GpuPart& gpu, const OpTraffic& t,
                                     TokenCount tokens) {
  const BatchEfficiency& batch = s.runtime.batch;
  if (!t.routed || batch.expert_columns.value <= 0 || !gpu.int8_tensor || !is_cuda_or_rocm(s) ||
      loops_over_experts(s, gpu, t, tokens))
    return std::nullopt;
  const double n = double(tokens), p = share_of_expert(s), mean = n * p;
  const double deviation = std::sqrt(mean * (1 - p));
  const double width = width_of_tile(batch.expert_columns.value, tokens_of_tiles(s, gpu, n));
  double tiles = experts_hit(s, tokens) / s.model.moe->experts;
  for (double more = width; more < n; more += width)  // P(more than `more` tokens)
    tiles += 0.5 * std::erfc((more + 0.5 - mean) / (std::sqrt(2.0) * std::max(deviation, 1e-9)));
  return width * tiles / mean;
}

// Share of a matrix written out as FP16 that stays in the GPU's cache until it is read: every
// matrix is written to the same place.
double share_in_cache(const StepContext& s, const GpuPart& gpu, const OpTraffic& t, Bytes fp16,
                      TokenCount tokens) {
  if (!gpu.l2 || t.matrices <= 0 || fp16 <= 0_B) return 0;
  const double matrices = double(t.matrices) * (t.routed ? experts_hit(s, tokens) : 1.0);
  return std::min(1.0, gpu.l2->value / (fp16 / matrices));
}

// Share of the units' time in which a library's thread blocks of float products keep them busy.
double busy_share(const StepContext& s, const GpuPart& gpu, const OpTraffic& t, TokenCount tokens) {
  const double tile = s.runtime.backends[std::size_t(s.settings.backend)].gemm_tile.value;
  if (tile <= 0 || t.routed) return 1.0;
  return wave_efficiency_of_widths(t, double(tokens), {tile, tile, units_of(gpu)});
}

// The share of their rates that all products of a batch reach.
double share_of_products(const StepContext& s, const GpuPart& gpu, const OpTraffic& t,
                         TokenCount tokens) {
  const BackendEfficiency& backend = s.runtime.backends[std::size_t(s.settings.backend)];
  const double both = backend.batch.value * s.runtime.batch.speed.value;
  if (!t.routed) return both;
  const bool kernel = !leaves_experts_to_library(s, gpu, t, tokens);
  const double changes = kernel ? before_changes(s, gpu, ChangedFigure::kExperts) : 1.0;
  return both * s.runtime.batch.experts.value * changes;
}

// FLOP/s of a library's products of floats. The rate falls where few tokens share a weight.
double rate_of_floats(const StepContext& s, const GpuPart& gpu, const OpTraffic& t,
                      TokenCount tokens) {
  const GpuEfficiency& e = s.runtime.gpu_efficiency(gpu);
  const FlopsPerSecond floats = gemm_rate(gpu).value;
  const double shared = std::max(t.tokens_per_weight, 1e-9);
  const double half = s.runtime.batch.gemm_half_rate_batch.value * e.half_rate_batch.value;
  return floats.value * e.gemm.value * share_of_products(s, gpu, t, tokens) *
         power_share(s, gpu, floats, 1.2) / (1.0 / busy_share(s, gpu, t, tokens) + half / shared);
}

// Time of quantized weights that are written out as FP16 and multiplied by the library, which reads
// them while it computes.
double expanded_seconds(const StepContext& s, const GpuPart& gpu, const OpTraffic& t,
                        TokenCount tokens, const MatmulSplit& split) {
  const double passing = gpu.bandwidth.value.value * s.runtime.batch.expand.value;
  const Bytes fp16{2.0 * split.elements};
  const double passes = fp16.value * (1.0 - share_in_cache(s, gpu, t, fp16, tokens));
  const double products = t.matmul_flops * split.quants / rate_of_floats(s, gpu, t, tokens);
  return (split.quant_bytes + passes) / passing + std::max(products, passes / passing);
}

// Time of quantized weights that are multiplied as INT8 tiles.
double tiled_seconds(const StepContext& s, const GpuPart& gpu, const OpTraffic& t,
                     TokenCount tokens, const MatmulSplit& split) {
  const GpuEfficiency& e = s.runtime.gpu_efficiency(gpu);
  const BatchEfficiency& batch = s.runtime.batch;
  const double shared = std::max(t.tokens_per_weight, 1e-9);
  const auto columns = expert_columns(s, gpu, t, tokens);
  const double kernel = columns ? batch.expert_tiles.value / batch.experts.value : 1.0;
  const double multiplied = shared * columns.value_or(1.0);  // tokens, for each weight
  const double part =
      share_of_products(s, gpu, t, tokens) * kernel *
      power_share(s, gpu, tile_rate(gpu).value, 0.6) /
      (1.0 + batch.tile_half_rate_batch.value * e.half_rate_batch.value / multiplied) *
      before_changes(s, gpu, ChangedFigure::kTiles);
  return t.matmul_flops * multiplied / shared * tile_seconds(s, gpu, split, e.tiles.value) / part;
}

// True where thresholds by format and batch, measured for each architecture, leave products to the
// library when it is the faster one. See ggml_cuda_should_use_mmq() and llama.cpp PR 17576, 18537.
bool takes_the_faster(const StepContext& s, const GpuPart& gpu, const OpTraffic& t,
                      TokenCount tokens) {
  return s.settings.backend == Backend::kRocm && gpu.int8_tensor && !t.routed &&
         tokens >= kDotTokens;
}

// Time of large products. Quantized weights are multiplied as INT8 tiles or as FP16, after the
// weights are written out; float weights as FP16.
Seconds matmul_time(const StepContext& s, const GpuPart& gpu, const OpTraffic& t,
                    TokenCount tokens) {
  const MatmulSplit split = split_matmul(s, gpu, t);
  const double floats =
      t.matmul_flops * (split.floats_scaled + split.as_floats) / rate_of_floats(s, gpu, t, tokens);
  if (expands_weights(s, gpu, t, tokens))
    return Seconds{floats + expanded_seconds(s, gpu, t, tokens, split)};
  const double tiled = tiled_seconds(s, gpu, t, tokens, split);
  if (!takes_the_faster(s, gpu, t, tokens)) return Seconds{floats + tiled};
  return Seconds{floats + std::min(tiled, expanded_seconds(s, gpu, t, tokens, split))};
}

// Metal leaves a discrete GPU's weights in host memory: the GPU reads them over the link, and
// without Apple's matrix instructions once for every token. See llama.cpp issues 15228 and 26949.
double weight_equivalent_bytes(const StepContext& s, std::size_t gpu, const OpTraffic& t,
                               double share) {
  const GpuPart& part = s.rig.gpus[gpu];
  if (s.settings.backend != Backend::kMetal || part.unified) return t.weight_bytes() / share;
  const double readings = std::max(1.0, t.tokens_per_weight);
  return t.weight_bytes() * readings * (part.bandwidth.value / s.rig.links[gpu].h2d.value);
}

// True for builds whose kernel for one token reads float weights in wide loads.
bool has_float_kernel(const StepContext& s) {
  const double since = s.runtime.decode.float_since.value;
  return is_cuda_or_rocm(s) && since > 0 && s.settings.build_year.value_or(since) >= since;
}

// Time in which the GPU's units unpack every byte of weights and multiply it with the tokens that
// share it.
Seconds unpack_time(const StepContext& s, const GpuPart& gpu, const OpTraffic& t) {
  double cycles = 0;
  for (std::size_t f = 0; f < t.weight_bytes_by_format.size(); ++f) {
    const auto format = QuantFormat(f);
    if (t.weight_bytes_by_format[f] <= 0) continue;
    const bool newer = format_group(format) == FormatGroup::kFloat && has_float_kernel(s);
    cycles += t.weight_bytes_by_format[f] * s.runtime.format(format).cycles.value *
              (newer ? s.runtime.decode.float_cycles.value : 1.0);
  }
  cycles *= s.runtime.gpu_efficiency(gpu).cycles.value;
  if (t.routed) cycles *= s.runtime.decode.expert_cycles.value;
  const double further = std::max(0.0, t.tokens_per_weight - 1.0);
  if (s.runtime.decode.token_cycles.value > 0 && further > 0)
    cycles += s.runtime.decode.token_cycles.value * further * split_matmul(s, gpu, t).elements;
  return Seconds{cycles / unit_rate(gpu).value};
}

// What unpacking adds to the time of reading weights. Warps that wait for memory leave the units to
// those whose weights have come, so that either hides a part of the other.
Seconds unoverlapped_time(const StepContext& s, Seconds unpacking, Seconds reading) {
  const double share = s.runtime.decode.unoverlapped_share.value;
  return unpacking - std::min(unpacking, reading) * (1.0 - share);
}

// A profile's shares refer to the data sheet's rate. Their share of a measured rate is larger,
// because the measured rate excludes what no kernel reaches.
double share_of(const GpuPart& part, double share) {
  constexpr double kMeasured = 0.92;  // of the data sheet
  return part.bandwidth.kind == SourceKind::kMeasured ? std::min(1.0, share / kMeasured) : share;
}

// A batch's attention without flash attention: matrix products of the library, whose scores other
// kernels take (score_passes()).
Seconds separate_attention_time(const StepContext& s, const GpuPart& gpu, double flops) {
  const BackendEfficiency& backend = s.runtime.backends[std::size_t(s.settings.backend)];
  return Seconds{flops / (gemm_rate(gpu).value.value * s.runtime.gpu_efficiency(gpu).gemm.value *
                          backend.batch.value)};
}

Seconds batch_attention_time(const StepContext& s, const GpuPart& gpu, const OpTraffic& t,
                             TokenCount tokens) {
  const BackendEfficiency& backend = s.runtime.backends[std::size_t(s.settings.backend)];
  const double share = s.runtime.gpu_efficiency(gpu).attention.value * backend.attention.value *
                       before_changes(s, gpu, ChangedFigure::kAttention);
  if (s.model.mla && s.runtime.blocks && s.runtime.blocks->latent_key)
    return latent_attention_time(s, gpu, t);
  const double flops = computed_flops(s, t, tokens);
  if (!s.settings.flash_attention) return separate_attention_time(s, gpu, flops);
  const FlopsPerSecond rate = s.runtime.blocks ? fp16_rate(gpu) : gemm_rate(gpu).value;
  Seconds products{flops / (rate.value * share)};
  if (gpu.fp16_tensor && !s.runtime.blocks && t.flops_of_score > 0)
    products += Seconds{
        flops / t.flops_of_score * s.runtime.batch.score_cycles.value / unit_rate(gpu).value /
        (backend.attention.value * before_changes(s, gpu, ChangedFigure::kAttention))};
  if (!s.runtime.blocks) return products;
  return block_attention_time(s, t, tokens,
                              {products, products * share, units_of(gpu), kernel_gap(s, gpu),
                               gpu.bandwidth.value, s.runtime.blocks->is_of(gpu.architecture)});
}

// The host launches kernels while the GPU still works on earlier ones. Where an interpreter does
// that, a launch takes longer than most kernels, and what counts is the longer of both.
OpCost with_launches(const StepContext& s, std::size_t gpu, OpCost cost, Seconds launches) {
  Seconds hidden;
  if (s.runtime.kernels.eager)
    hidden = std::min(
        launches, cost.serial + std::max(cost.compute,
                                         memory_time(s, cost.equivalent_bytes, DeviceIndex(gpu))));
  cost.overhead = cost.serial + launches - hidden;
  return cost;
}

// Of a batch whose kernels' gaps are known: these, and how much longer the host takes to launch
// them than they run, unless they are launched as one graph.
OpCost with_gaps(const StepContext& s, std::size_t gpu, OpCost cost, double kernels,
                 Seconds launches) {
  const Seconds gaps = kernel_gap(s, s.rig.gpus[gpu]) * kernels;
  const Seconds work =
      cost.serial + gaps +
      std::max(cost.compute, memory_time(s, cost.equivalent_bytes, DeviceIndex(gpu)));
  cost.overhead = cost.serial + gaps + std::max(Seconds{}, launches - work);
  return cost;
}

// Clocks fall with the power limit, and with them what the units compute and ask of memory.
OpCost under_power_limit(const GpuPart& part, OpCost cost) {
  const double share = part.speed_share.value;
  cost.equivalent_bytes = cost.equivalent_bytes / share;
  cost.compute = cost.compute / share;
  cost.serial = cost.serial / share;
  return cost;
}

// True where a batch's kernels were measured on other GPUs alone.
bool has_unknown_blocks(const StepContext& s, const GpuPart& gpu) {
  return s.runtime.blocks && !s.runtime.blocks->is_of(gpu.architecture);
}

// True where experts are computed for one token after the other, as no kernels multiply a batch's
// weights as they lie.
bool takes_experts_in_turns(const StepContext& s, const GpuPart& gpu, const OpTraffic& t) {
  return t.routed && std::ranges::count(s.runtime.blocks->writes_out, gpu.architecture) > 0;
}

OpCost cost_of_kernels(const StepContext& s, std::size_t gpu, const OpTraffic& t, TokenCount tokens,
                       double kernels, bool in_graph) {
  const GpuPart& part = s.rig.gpus[gpu];
  const GpuEfficiency& e = s.runtime.gpu_efficiency(part);
  const BackendEfficiency& backend = s.runtime.backends[std::size_t(s.settings.backend)];
  const bool batched = !has_token_kernels(s, tokens);
  const double kv = cache_bytes(s, t, &part) * (part.shared ? part.shared->kv_copies : 1) *
                    latent_reads(s, batched);
  const bool flash = s.settings.flash_attention;
  const double without = flash || batched ? 1.0 : s.runtime.decode.kv_without_flash.value;
  const double kv_scale = without * (t.wide_heads ? s.runtime.decode.wide_heads.value : 1.0);
  OpCost cost;
  cost.bytes = Bytes{t.weight_bytes() + kv + t.activation_bytes};
  const double weights =
      weight_equivalent_bytes(s, gpu, t, share_of(part, e.read.value * backend.read.value)) *
      tile_read_time(s, part, t, tokens);
  cost.equivalent_bytes =
      Bytes{weights + kv * kv_scale / share_of(part, e.kv_read.value) + t.activation_bytes};
  if (s.kv.policy == KvPolicy::kStream && s.runtime.decode.returns_kv && !s.rig.unified())
    cost.serial += Bytes{std::max(t.kv_read_bytes, t.kv_write_bytes)} / s.rig.links[gpu].d2h.value;
  const Seconds launches =
      launch_overhead(s, part, tokens) * (kernels + batch_kernels(s, part, t, tokens));
  if (!batched) {
    if (const auto& blocks = s.runtime.blocks)
      cost.equivalent_bytes += Bytes{weights} * blocks->token_idle.value *
                               idle_of_one_token(t, {blocks->token_rows.value, 1, units_of(part)},
                                                 blocks->fifth_block_bits.value);
    const Seconds reading = memory_time(s, Bytes{weights}, DeviceIndex(gpu));
    cost.serial += unoverlapped_time(s, unpack_time(s, part, t), reading) +
                   cache_products(s, part, t.attention_flops) * kv_scale;
    cost = under_power_limit(part, cost);
    return corrected(s, with_launches(s, gpu, cost, launches), tokens, DeviceIndex(gpu));
  }
  if (t.matmul_flops > 0 && s.runtime.blocks) {
    const BlockProducts products = block_products(s, part, t, tokens);
    cost.compute = products.compute;
    cost.serial += products.start;
  } else if (t.matmul_flops > 0) {
    cost.compute = matmul_time(s, part, t, tokens);
  }
  cost.serial += expert_sort_time(s, part, t, tokens);
  cost.compute += batch_attention_time(s, part, t, tokens);
  if (s.runtime.blocks) cost.serial += cache_products(s, part, t.single_flops) * kv_scale;
  cost.serial += single_attention_time(s, part, t);
  if (!flash) cost.serial += score_passes(s, part, t, tokens);
  cost.serial += between_products_time(s, part, t);
  cost = under_power_limit(part, cost);
  cost = s.runtime.blocks ? with_gaps(s, gpu, cost, kernels, in_graph ? Seconds{} : launches)
                          : with_launches(s, gpu, cost, launches);
  return corrected(s, cost, tokens, DeviceIndex(gpu));
}

}  // namespace

OpCost gpu_cost(const StepContext& s, std::size_t gpu, const OpTraffic& t, TokenCount tokens,
                double kernels, bool in_graph) {
  const OpCost cost = cost_of_kernels(s, gpu, t, tokens, kernels, in_graph);
  const GpuPart& part = s.rig.gpus[gpu];
  if (tokens <= 1 || !has_unknown_blocks(s, part)) return cost;
  const OpCost of_one = cost_of_kernels(s, gpu, of_one_token(t, double(tokens)), 1, kernels, false);
  if (takes_experts_in_turns(s, part, t)) return of_one * double(tokens);
  // A batch takes no less than one of its tokens.
  const bool is_less =
      time_alone(s, cost, DeviceIndex(gpu)) < time_alone(s, of_one, DeviceIndex(gpu));
  return is_less ? of_one : cost;
}

}  // namespace rigcast
