#include "perfmodel/blocks/wide_tiles.hpp"

#include <algorithm>
#include <cmath>

#include "core/model/quant_format.hpp"

namespace rigcast {
namespace {

constexpr double kPart = 256;      // columns that blocks divide
constexpr double kMaxSharing = 8;  // blocks that share the columns of one

// Formats whose units of 32 weights lie in 16 or 32 bytes. Mirrors supports_tiled_gemm
// (engine/kernels/cuda/hopper/tiled_gemm.cuh).
bool is_tiled(QuantFormat format) {
  using enum QuantFormat;
  constexpr QuantFormat kTiled[] = {kQ4_0, kQ4_1, kQ5_0, kQ5_1,   kQ8_0,
                                    kQ4_K, kQ5_K, kQ6_K, kIQ4_NL, kMXFP4};
  return std::ranges::count(kTiled, format) > 0;
}

// Formats of which two blocks of half as many tokens do not fit into a unit's registers. Mirrors
// kTiledBlocks (engine/kernels/cuda/hopper/tiled_kernel.cuh).
constexpr QuantFormat kLarge[] = {QuantFormat::kQ6_K, QuantFormat::kQ8_0};

// True if a unit has one block of half as many tokens: of all matrices of a product, which are
// multiplied at once.
bool has_single_blocks(const OpTraffic& t, const ProductShape& p) {
  if (!p.several_formats) return std::ranges::count(kLarge, p.format) > 0;
  return std::ranges::any_of(
      kLarge, [&](QuantFormat f) { return t.weight_bytes_by_format[std::size_t(f)] > 0; });
}

// The kind of blocks that multiply a product.
struct Blocks {
  double tokens, of_unit;  // of a block; blocks that a unit has at once
  double rate;             // share of the GPU's
  Seconds start;
};

Blocks blocks_for(const WideTiles& tiles, const OpTraffic& t, const ProductShape& p,
                  double tokens) {
  const double all = tiles.tokens.value;
  if (2 * tokens > all) return {all, 1, tiles.rate.value, tiles.start.value};
  // Such a block does no more than one of all tokens.
  if (has_single_blocks(t, p))
    return {all / 2, 1, std::max(tiles.single_rate.value, tiles.rate.value / 2), tiles.start.value};
  return {all / 2, 2, tiles.half_rate.value, Seconds{}};
}

bool is_float(const ProductShape& p) {
  return !p.several_formats && info(p.format).block_elements == 1;
}

// Gate and up of an FFN, which one kernel multiplies. Attention has more than three matrices, and
// no router.
bool is_gate_and_up(const OpTraffic& t, const ProductShape& p) {
  const ProductShape &out = t.products[WeightGroup::kOut], &other = t.products[WeightGroup::kOther];
  const int beside = other.rows > 0 && is_float(other) ? 1 : 0;
  return &p == &t.products[WeightGroup::kIn] && t.matrices <= 3 + beside && out.rows > 0 &&
         p.rows == 2 * (out.elements / out.rows);
}

// The number of blocks with which each has the fewest parts of columns, among those that run at
// once. Loads run ahead: each has at least three parts, or two where units would have nothing.
// Mirrors cluster_for() (engine/kernels/cuda/hopper/tiled_gemm.cu).
double sharing_blocks(double blocks, double parts, double units, double at_once) {
  double best = 1;
  for (double sharing = 2; sharing <= kMaxSharing; ++sharing) {
    const double least = blocks * sharing <= units ? 2 : 3;
    if (std::floor(parts / sharing) < least) break;
    if (std::ceil(parts / sharing) < std::ceil(parts / best) && blocks * sharing <= at_once)
      best = sharing;
  }
  return best;
}

}  // namespace

double untiled_share(const OpTraffic& t) {
  double quants = 0, untiled = 0;
  for (std::size_t f = 0; f < t.weight_bytes_by_format.size(); ++f) {
    if (info(QuantFormat(f)).block_elements == 1) continue;
    quants += t.weight_bytes_by_format[f];
    if (!is_tiled(QuantFormat(f))) untiled += t.weight_bytes_by_format[f];
  }
  return quants > 0 ? untiled / quants : 0;
}

bool has_wide_tiles(const BlockEfficiency& blocks, const OpTraffic& t, double tokens) {
  if (!blocks.wide || t.routed || tokens < blocks.fp16_from_batch.value ||
      tokens > blocks.wide->until_batch.value)
    return false;
  for (std::size_t f = 0; f < t.weight_bytes_by_format.size(); ++f)
    if (t.weight_bytes_by_format[f] > 0 && info(QuantFormat(f)).block_elements > 1 &&
        !is_tiled(QuantFormat(f)))
      return false;
  const bool of_gate = is_gate_and_up(t, t.products[WeightGroup::kIn]);
  return std::ranges::all_of(t.products, [&](const ProductShape& p) {
    if (p.rows == 0 || is_float(p)) return true;
    const std::uint64_t columns = p.elements / p.rows;
    if (columns % std::uint64_t(kPart) == 0) return true;
    // What gate and up write is whole parts in any case.
    return of_gate && &p == &t.products[WeightGroup::kOut] && columns % 32 == 0 &&
           columns > std::uint64_t(kPart);
  });
}

WideTilesTime wide_tiles_time(const WideTiles& tiles, const OpTraffic& t, double tokens,
                              const WideTilesGpu& gpu) {
  WideTilesTime sum{};
  for (const ProductShape& p : t.products) {
    if (p.rows == 0 || is_float(p)) continue;
    const Blocks b = blocks_for(tiles, t, p, tokens);
    const double reached = gpu.rate.value * std::min(1.0, b.rate * gpu.power_share);
    const double parts = std::ceil(double(p.elements) / double(p.rows) / kPart);
    const double blocks =
        std::ceil(double(p.rows) / tiles.rows.value) * std::ceil(tokens / b.tokens);
    const double at_once = gpu.units > 0 ? gpu.units * b.of_unit : blocks;
    const double sharing =
        is_gate_and_up(t, p) ? 1.0 : sharing_blocks(blocks, parts, gpu.units, at_once);
    const double rounds = std::ceil(blocks * sharing / at_once);
    const double columns = std::ceil(parts / sharing) * kPart;
    const double flops = 2 * tiles.rows.value * b.tokens * columns;  // of a block
    sum.compute += Seconds{rounds * flops * at_once / reached};
    sum.start += b.start * rounds + tiles.sharing.value * (sharing - 1);
  }
  return sum;
}

}  // namespace rigcast
