#pragma once
// Kernels cut a product into thread blocks, which a GPU's units take in waves. A last wave that is
// not full leaves units idle: how much of them that is depends on the product's rows and tokens.

#include "core/model/traffic.hpp"

namespace rigcast {

/// How a batch's products are cut. Rows and tokens are of one thread block.
struct BlockCut {
  double rows = 0;
  double tokens = 0;
  double units = 0;  // of the GPU; 0: not known, and all count as busy
};

/// Share of the units' time that these products keep busy, in blocks of `cut`. A block of fewer
/// tokens takes as much less.
double busy_in_blocks(const OpTraffic& products, double tokens, const BlockCut& cut);

/// The same for blocks of several times `cut.rows`: the largest of 8, 4, 2 and 1 times of which
/// nearly all units still have one.
double busy_in_largest_blocks(const OpTraffic& products, double tokens, const BlockCut& cut);

/// The same for so many blocks, of which a unit takes two at once. With fewer than there are units,
/// kernels cut them smaller: then all count as busy.
double busy_with_blocks(double blocks, double units);

/// One token: idle time of the units for each second of busy time, where a unit has blocks of
/// `cut.rows` rows at once, twice as many where rows are enough for that.
double idle_of_token(const OpTraffic& products, const BlockCut& cut);

}  // namespace rigcast
