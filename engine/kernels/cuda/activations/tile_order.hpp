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

/// The largest batch of tiled activations. With more tokens, cuBLAS is faster, and writing weights
/// out as F16 counts little: 2,284 us for a layer's products with 4,096 in place of 2,617, and 675
/// in place of 656 with 1,024 (8B Q4_K_M, H200).
inline constexpr int kMaxTiledTokens = 1024;

/// The tokens for which a tile has room. With 256, a multiprocessor runs one block instead of two
/// (kTiledBlocks), which converts each weight half as often.
RIGCAST_HOST_DEVICE constexpr int tiled_tokens(int tokens) {
  return tokens <= 8     ? 8
         : tokens <= 16  ? 16
         : tokens <= 32  ? 32
         : tokens <= 64  ? 64
         : tokens <= 128 ? 128
                         : 256;
}

/// The tokens for which a batch has room, in tiles of tiled_tokens(tokens): all columns of the
/// first tile's tokens come first.
RIGCAST_HOST_DEVICE constexpr int padded_tokens(int tokens) {
  const int tile = tiled_tokens(tokens);
  return (tokens + tile - 1) / tile * tile;
}

/// The index of a token's column in a tile of `tiled` tokens.
RIGCAST_HOST_DEVICE constexpr std::int64_t tiled_index(std::int64_t column, int token, int tiled) {
  const int in_tile = int(column % kTileColumns), unit = in_tile / 32, in_unit = in_tile % 32;
  const int word = in_unit % 16 / 4, byte = in_unit % 4;
  const int step = unit / 4 * 8 + 2 * word + in_unit / 16;
  const int half = byte % 2, place = 2 * (unit % 4) + byte / 2;
  return column / kTileColumns * kTileColumns * tiled + ((step * 2 + half) * tiled + token) * 8 +
         place;
}

/// The same among rows of `width` columns of any number of tokens.
RIGCAST_HOST_DEVICE constexpr std::int64_t tiled_index(std::int64_t width, std::int64_t column,
                                                       int token, int tiled) {
  return token / tiled * width * tiled + tiled_index(column, token % tiled, tiled);
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
