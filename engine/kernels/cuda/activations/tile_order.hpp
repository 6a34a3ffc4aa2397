#pragma once
// The order in which products on Hopper's tensor cores read activations. A lane converts whole
// units of 32 weights as they lie in memory, so each step of 16 columns takes four columns from
// each of four neighbouring units; activations are stored in the same order of columns.

#include <cstdint>

#ifdef __CUDACC__
#define RIGCAST_HOST_DEVICE __host__ __device__
#else
#define RIGCAST_HOST_DEVICE
#endif

namespace rigcast::engine::cuda {

/// Columns of a tile, which is contiguous: [step of 16][half of a step][token][8 columns].
inline constexpr int kTileColumns = 256;

/// `columns` in whole tiles. Columns past the last are zeros.
RIGCAST_HOST_DEVICE constexpr std::int64_t tiled_columns(std::int64_t columns) {
  return (columns + kTileColumns - 1) / kTileColumns * kTileColumns;
}

/// The largest batch of tiled activations.
inline constexpr int kMaxTiledTokens = 64;

/// The tokens for which a tile has room: 8, 16, 32 or 64.
RIGCAST_HOST_DEVICE constexpr int tiled_tokens(int tokens) {
  return tokens <= 8 ? 8 : tokens <= 16 ? 16 : tokens <= 32 ? 32 : 64;
}

/// The index of a token's column among activations that are tiled for `tiled` tokens.
RIGCAST_HOST_DEVICE constexpr std::int64_t tiled_index(std::int64_t column, int token, int tiled) {
  const int in_tile = int(column % kTileColumns), unit = in_tile / 32, in_unit = in_tile % 32;
  const int word = in_unit % 16 / 4, byte = in_unit % 4;
  const int step = unit / 4 * 8 + 2 * word + in_unit / 16;
  const int half = byte % 2, place = 2 * (unit % 4) + byte / 2;
  return column / kTileColumns * kTileColumns * tiled + ((step * 2 + half) * tiled + token) * 8 +
         place;
}

/// The first of a step's columns: it has this and the next three, and the same of the three units
/// after this one's. `step`: counted from the first column of all.
RIGCAST_HOST_DEVICE constexpr std::int64_t first_column_of_step(int step) {
  const int in_tile = step % (kTileColumns / 16);
  const int first = in_tile / 8 * 128 + in_tile % 2 * 16 + in_tile % 8 / 2 * 4;
  return std::int64_t(step / (kTileColumns / 16)) * kTileColumns + first;
}

}  // namespace rigcast::engine::cuda

#undef RIGCAST_HOST_DEVICE
