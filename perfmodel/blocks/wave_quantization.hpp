#pragma once
// Wave quantization. Kernels divide a product into thread blocks, which a GPU's units (SMs) run in
// waves. A last wave that is not full leaves units idle; the idle share depends on the product's
// rows and tokens.

#include "core/model/traffic.hpp"

namespace rigcast {

/// The shape of a thread block of a batch's product.
struct BlockShape {
  double rows = 0;
  double tokens = 0;
  double units = 0;  // units of the GPU; 0: unknown, and all count as busy
};

/// Share of the units' time in which they are busy with these products, in blocks of shape `cut`. A
/// block with fewer tokens takes proportionally less time.
double wave_efficiency(const OpTraffic& products, double tokens, const BlockShape& cut);

/// As wave_efficiency(), for a library that has blocks of several widths: tokens beyond the first
/// block are divided among as many blocks as they would fill.
double wave_efficiency_of_widths(const OpTraffic& products, double tokens, const BlockShape& cut);

/// As wave_efficiency(), with blocks of 8, 4, 2 or 1 times `cut.rows`: the largest size that still
/// gives nearly all units a block.
double wave_efficiency_of_largest(const OpTraffic& products, double tokens, const BlockShape& cut);

/// As wave_efficiency(), for `blocks` blocks of which a unit runs two at once. With fewer blocks
/// than units, kernels make smaller blocks, and all units count as busy.
double wave_efficiency_of_blocks(double blocks, double units);

/// Rows for each unit from which a product of one token has enough rows for whole tiles. Mirrors
/// has_many_rows (engine/kernels/cuda/matvec/many_rows.hpp).
inline constexpr double kManyRowsOfUnit = 44;

/// Idle time of the units per second of busy time while one token is computed. A unit works on
/// `cut.rows` rows at once, in four blocks; on twice as many if the product has enough rows. Where
/// a fifth block does away with a second round, matrices of one format of up to `fifth_block_bits`
/// a weight have one. Mirrors needs_fifth_block (engine/kernels/cuda/matvec/many_rows.hpp).
double idle_of_one_token(const OpTraffic& products, const BlockShape& cut,
                         double fifth_block_bits = 0);

/// Columns that matrix units multiply for each weight of an expert of a batch, and `half` more for
/// each group: `mean` tokens choose every expert, independently, and at most `widest` of them are
/// multiplied at once. Groups have the width of 8, 16, ... columns that takes least.
double columns_of_groups(double mean, double half, double widest);

/// The same of `tokens` tokens, `share` of which choose an expert, where no more than `most` of
/// them are multiplied before the next.
double columns_of_parts(double tokens, double share, double most, double half, double widest);

}  // namespace rigcast
