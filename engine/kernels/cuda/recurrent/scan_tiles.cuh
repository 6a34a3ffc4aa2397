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
  const float *gate, *other_gate;
  std::int64_t gate_stride;
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

/// Copies a tile after the other. What a thread copies is the same part of each.
class TileCopies {
 public:
  __device__ __forceinline__ TileCopies(const ScanSource& from, int rows) : rows_(rows) {
    const int thread = int(threadIdx.x);
    vector_ = thread / kUnits;
    element_ = thread % kUnits * 4;
    key_ = from.rows + vector_ * from.width + from.key + element_;
    query_ = key_ + (from.query - from.key);
    line_ = thread % kScanRows;
    value_ = from.rows + thread / kScanRows * from.width + from.value + min(line_, from.values - 1);
    width_ = from.width;
    gate_token_ = thread % kTileTokens;
    gate_ = (thread < kTileTokens ? from.gate : from.other_gate) + gate_token_ * from.gate_stride;
    gate_stride_ = from.gate_stride;
  }

  /// Starts to copy the next tile. Keys and values behind the last row are zeros;
  /// all else there is undefined.
  __device__ __forceinline__ void start(ScanTile& to) {
#pragma unroll
    for (int i = 0; i < kTileTokens; i += kVectorsAtOnce) {
      float* const key = &to.keys[i + vector_][element_];
      if (first_ + i + vector_ < rows_) {
        copy_floats<16>(key, key_ + i * width_);
        copy_floats<16>(&to.queries[i + vector_][element_], query_ + i * width_);
      } else {
        *reinterpret_cast<float4*>(key) = make_float4(0, 0, 0, 0);
      }
    }
    const int token = int(threadIdx.x) / kScanRows;
#pragma unroll
    for (int i = 0; i < kTileTokens; i += kScanThreads / kScanRows) {
      float* const value = &to.values[i + token][line_];
      if (first_ + i + token < rows_)
        copy_floats<4>(value, value_ + i * width_);
      else
        *value = 0;
    }
    if (threadIdx.x < 2 * kTileTokens && first_ + gate_token_ < rows_)
      copy_floats<4>(&to.gates[threadIdx.x / kTileTokens][gate_token_], gate_);
    commit_group();
    first_ += kTileTokens;
    key_ += kTileTokens * width_;
    query_ += kTileTokens * width_;
    value_ += kTileTokens * width_;
    gate_ += kTileTokens * gate_stride_;
  }

 private:
  static constexpr int kUnits = kMixerState / 4, kVectorsAtOnce = kScanThreads / kUnits;
  const float *key_, *query_, *value_, *gate_;
  std::int64_t width_, gate_stride_;
  int rows_, first_ = 0, vector_, element_, line_, gate_token_;
};

/// Sums of kStateLanes values over as many neighbouring lanes; lane i gets the sum of value i.
template <int kValues>
__device__ __forceinline__ float sum_for_each_lane(const float (&values)[kValues], int lane) {
  if constexpr (kValues == 1) {
    return values[0];
  } else {
    // Each half of the lanes keeps half of the values and sends the others.
    constexpr int kHalf = kValues / 2;
    const bool upper = lane & kHalf;
    float kept[kHalf];
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const float sent = upper ? values[i] : values[i + kHalf];
      kept[i] = (upper ? values[i + kHalf] : values[i]) + __shfl_xor_sync(~0u, sent, kHalf);
    }
    return sum_for_each_lane(kept, lane);
  }
}

/// Takes all rows in turn. Every lane of a row of the state is called with each token: first
/// prepare(key, query, gate, other gate), whose result all rows of the state share; then
/// update(token, key, value), and with the state as it is then, scan_part(query), whose sum over
/// the lanes one of them gets: finish(row, token, value, sum). Call after wait_for_inputs().
template <class Token, class Prepare, class Update, class Finish>
__device__ __forceinline__ void scan_tokens(const ScanSource& from, int rows, HeadState& state,
                                            const Prepare& prepare, const Update& update,
                                            const Finish& finish) {
  __shared__ ScanTile tiles[2];
  __shared__ Token tokens[kTileTokens];
  const int lane = int(threadIdx.x) % kStateLanes, line = int(threadIdx.x) / kStateLanes;
  TileCopies copies(from, rows);
  copies.start(tiles[0]);
  for (int first = 0, i = 0; first < rows; first += kTileTokens, ++i) {
    const ScanTile& tile = tiles[i % 2];
    copies.start(tiles[(i + 1) % 2]);
    wait_for_group<1>();
    __syncthreads();
    {
      const Token token =
          prepare(LaneVector(tile.keys[line], lane), LaneVector(tile.queries[line], lane),
                  tile.gates[0][line], tile.gates[1][line]);
      if (lane == 0) tokens[line] = first + line < rows ? token : Token::that_changes_nothing();
    }
    __syncthreads();
    for (int t = 0; t < kTileTokens; t += kStateLanes) {
      float seen[kStateLanes];
#pragma unroll
      for (int j = 0; j < kStateLanes; ++j) {
        update(tokens[t + j], LaneVector(tile.keys[t + j], lane), tile.values[t + j][line]);
        seen[j] = state.scan_part(LaneVector(tile.queries[t + j], lane));
      }
      const float sum = sum_for_each_lane(seen, lane);
      const int own = t + lane;
      if (first + own < rows) finish(first + own, tokens[own], tile.values[own][line], sum);
    }
    __syncthreads();  // the next tile but one takes this one's place
  }
}

}  // namespace rigcast::engine::cuda
