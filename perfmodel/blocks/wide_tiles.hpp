#pragma once
// Products of a batch in wide tiles (WideTiles, core/runtime/gpu_efficiency.hpp).

#include "core/base/units.hpp"
#include "core/model/traffic.hpp"
#include "core/runtime/gpu_efficiency.hpp"

namespace rigcast {

/// True if wide tiles multiply the quantized weights of a batch of `tokens`: all of an operation's,
/// in whole parts of 256 columns.
bool has_wide_tiles(const BlockEfficiency& blocks, const OpTraffic& t, double tokens);

/// Share of the bytes of quantized weights whose formats no tiles of these GPUs have: kernels of
/// all GPUs multiply them.
double untiled_share(const OpTraffic& t);

struct WideTilesTime {
  Seconds compute;  // overlaps with reads
  Seconds start;    // of rounds of blocks: overlaps with nothing
};

/// What multiplies them.
struct WideTilesGpu {
  double units = 0;        // 0: unknown, and all count as busy
  FlopsPerSecond rate;     // of FP16 products
  double power_share = 1;  // of it, by what the GPU's power allows beside others
};

/// Every product by itself takes rounds of blocks.
WideTilesTime wide_tiles_time(const WideTiles& tiles, const OpTraffic& t, double tokens,
                              const WideTilesGpu& gpu);

}  // namespace rigcast
