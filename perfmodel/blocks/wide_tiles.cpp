#include "perfmodel/blocks/wide_tiles.hpp"

#include <algorithm>
#include <cmath>

#include "core/model/quant_format.hpp"

namespace rigcast {
namespace {

constexpr double kPart = 256;      // columns that blocks divide
constexpr double kMinParts = 3;    // of a block
constexpr double kMaxSharing = 8;  // blocks that share the columns of one

// Formats whose units of 32 weights lie in 16 or 32 bytes. Mirrors supports_tiled_gemm
// (engine/kernels/cuda/hopper/tiled_gemm.cuh).
bool is_tiled(QuantFormat format) {
  using enum QuantFormat;
  constexpr QuantFormat kTiled[] = {kQ4_0, kQ4_1, kQ5_0, kQ5_1,   kQ8_0,
                                    kQ4_K, kQ5_K, kQ6_K, kIQ4_NL, kMXFP4};
  return std::ranges::count(kTiled, format) > 0;
}

}  // namespace

bool has_wide_tiles(const BlockEfficiency& blocks, const OpTraffic& t, double tokens) {
  if (!blocks.wide || t.routed || tokens < blocks.fp16_from_batch.value ||
      tokens > blocks.wide->until_batch.value)
    return false;
  for (std::size_t f = 0; f < t.weight_bytes_by_format.size(); ++f)
    if (t.weight_bytes_by_format[f] > 0 && info(QuantFormat(f)).block_elements > 1 &&
        !is_tiled(QuantFormat(f)))
      return false;
  return std::ranges::all_of(t.products, [](const ProductShape& p) {
    return p.rows == 0 || p.elements / p.rows % std::uint64_t(kPart) == 0;
  });
}

WideTilesTime wide_tiles_time(const WideTiles& tiles, const OpTraffic& t, double tokens,
                              const WideTilesGpu& gpu) {
  const bool half = 2 * tokens <= tiles.tokens.value;
  const double of_block = tiles.tokens.value / (half ? 2 : 1);
  const double share = (half ? tiles.half_rate : tiles.rate).value * gpu.power_share;
  const double reached = gpu.rate.value * std::min(1.0, share);  // none passes the rate
  WideTilesTime sum{};
  for (const ProductShape& p : t.products) {
    if (p.rows == 0) continue;
    const double columns = double(p.elements) / double(p.rows);
    const double blocks =
        std::ceil(double(p.rows) / tiles.rows.value) * std::ceil(tokens / of_block);
    const double at_once = gpu.units > 0 ? gpu.units * (half ? 2 : 1) : blocks;
    const double most = std::clamp(std::floor(columns / (kPart * kMinParts)), 1.0, kMaxSharing);
    const double sharing = std::clamp(std::floor(at_once / blocks), 1.0, most);
    const double rounds = std::ceil(blocks * sharing / at_once);
    const double flops = 2 * tiles.rows.value * of_block * columns / sharing;  // of a block
    sum.compute += Seconds{rounds * flops * at_once / reached};
    sum.start += tiles.start.value * rounds;
  }
  return sum;
}

}  // namespace rigcast
