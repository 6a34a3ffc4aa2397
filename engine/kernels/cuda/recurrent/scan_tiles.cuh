#pragma once
// Device code: a scan over consecutive tokens, whose keys, queries and values come to shared memory
// by tiles, one ahead of those that are computed.

#include "engine/kernels/cuda/matvec/lane_loads.cuh"
#include "engine/kernels/cuda/recurrent/head_state.cuh"

namespace rigcast::engine::cuda {

/// A thread block has some rows of a head's state, with kStateLanes threads each. As many threads
/// look at a token of a tile before the scan gets there.
inline constexpr int kScanThreads = 128, kScanRows = kScanThreads / kStateLanes;
inline constexpr int kTileTokens = kScanRows;

/// Where the tokens of a head are. Row r of the convolved channels is at rows + r * width, and has
/// the block's values from `value` on; its two gates are `gate_stride` apart from row to row.
struct ScanSource {
  const float* rows;
  std::int64_t width;
  int key, query, value;
  int values;  // of the head's that are there, at least 1; lanes behind them get the last
  const float* gates[2];
  std::int64_t gate_stride;
};

/// Products of a token's vectors, each a sum over all of their elements.
struct TokenDots {
  float of_keys, of_queries, of_both;
};

struct ScanTile {
  __align__(16) float keys[kTileTokens][kMixerState];
  __align__(16) float queries[kTileTokens][kMixerState];
  float values[kTileTokens][kScanRows];
  float gates[2][kTileTokens];
};

template <int kBytes>
__device__ __forceinline__ void copy_floats(float* to, const float* from) {
  copy_async<kBytes>(to, reinterpret_cast<const std::uint8_t*>(from));
}

/// Starts to copy a tile from row `first` on. Rows behind the last are copies of it.
__device__ __forceinline__ void fetch_tile(ScanTile& to, const ScanSource& from, int first,
                                           int rows) {
  constexpr int kUnits = kMixerState / 4;
  const int thread = int(threadIdx.x);
  const auto row = [&](int token) { return from.rows + min(first + token, rows - 1) * from.width; };
  for (int i = thread; i < kTileTokens * kUnits; i += kScanThreads) {
    const int token = i / kUnits, element = i % kUnits * 4;
    copy_floats<16>(&to.keys[token][element], row(token) + from.key + element);
    copy_floats<16>(&to.queries[token][element], row(token) + from.query + element);
  }
  for (int i = thread; i < kTileTokens * kScanRows; i += kScanThreads) {
    const int token = i / kScanRows, value = i % kScanRows;
    copy_floats<4>(&to.values[token][value], row(token) + from.value + min(value, from.values - 1));
  }
  if (thread < 2 * kTileTokens) {
    const int gate = thread / kTileTokens, token = thread % kTileTokens;
    copy_floats<4>(&to.gates[gate][token],
                   from.gates[gate] + min(first + token, rows - 1) * from.gate_stride);
  }
}

/// Calls visit(row, token, key, query, value) for all rows, one after the other, in every thread.
/// `token` is what prepare(dots, gate, other gate) made of the row, in one of its threads. Call
/// after wait_for_inputs().
template <class Token, class Prepare, class Visit>
__device__ __forceinline__ void scan_tokens(const ScanSource& from, int rows,
                                            const Prepare& prepare, const Visit& visit) {
  __shared__ ScanTile tiles[2];
  __shared__ Token tokens[kTileTokens];
  const int lane = int(threadIdx.x) % kStateLanes, line = int(threadIdx.x) / kStateLanes;
  fetch_tile(tiles[0], from, 0, rows);
  commit_group();
  for (int first = 0, i = 0; first < rows; first += kTileTokens, ++i) {
    const ScanTile& tile = tiles[i % 2];
    fetch_tile(tiles[(i + 1) % 2], from, first + kTileTokens, rows);
    commit_group();
    wait_for_group<1>();
    __syncthreads();
    {
      const LaneVector key(tile.keys[line], lane), query(tile.queries[line], lane);
      const TokenDots dots{sum_over_lanes(key.squares(), kStateLanes),
                           sum_over_lanes(query.squares(), kStateLanes),
                           sum_over_lanes(key.dot(query), kStateLanes)};
      if (lane == 0) tokens[line] = prepare(dots, tile.gates[0][line], tile.gates[1][line]);
    }
    __syncthreads();
    const int count = min(kTileTokens, rows - first);
#pragma unroll 4
    for (int t = 0; t < count; ++t)
      visit(first + t, tokens[t], LaneVector(tile.keys[t], lane), LaneVector(tile.queries[t], lane),
            tile.values[t][line]);
    __syncthreads();  // the next tile but one takes this one's place
  }
}

}  // namespace rigcast::engine::cuda
