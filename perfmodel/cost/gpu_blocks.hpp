#pragma once
// Wave quantization. Kernels divide a product into thread blocks, which a GPU's units (SMs) run in
// waves. A last wave that is not full leaves units idle; the idle share depends on the product's
// rows and tokens.

#include "core/model/traffic.hpp"

namespace rigcast {

/// The shape of a thread block of a batch's product.
struct BlockCut {
  double rows = 0;
  double tokens = 0;
  double units = 0;  // units of the GPU; 0: unknown, and all count as busy
};

/// Share of the units' time in which they are busy with these products, in blocks of shape `cut`. A
/// block with fewer tokens takes proportionally less time.
double busy_in_blocks(const OpTraffic& products, double tokens, const BlockCut& cut);

/// As busy_in_blocks(), with blocks of 8, 4, 2 or 1 times `cut.rows`: the largest size that still
/// gives nearly all units a block.
double busy_in_largest_blocks(const OpTraffic& products, double tokens, const BlockCut& cut);

/// As busy_in_blocks(), for `blocks` blocks of which a unit runs two at once. With fewer blocks
/// than units, kernels make smaller blocks, and all units count as busy.
double busy_with_blocks(double blocks, double units);

/// Idle time of the units per second of busy time while one token is computed. A unit works on
/// `cut.rows` rows at once, or on twice as many if the product has enough rows.
double idle_of_token(const OpTraffic& products, const BlockCut& cut);

}  // namespace rigcast
