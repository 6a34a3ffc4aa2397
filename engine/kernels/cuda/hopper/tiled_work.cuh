#pragma once
// One launch of the kernel for tiled activations (tiled_kernel.cuh).

#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

#include "engine/kernels/cuda/activations/gate_function.cuh"
#include "engine/kernels/cuda/activations/tile_order.hpp"
#include "engine/kernels/cuda/batch/experts_batch.cuh"
#include "engine/kernels/cuda/matvec/matvec.cuh"
#include "engine/kernels/cuda/weights/soa_layout.cuh"

namespace rigcast::engine::cuda {

inline constexpr int kTiledWarps = 8;
inline constexpr int kTiledRows = 16 * kTiledWarps;  // of a tile
inline constexpr int kMaxCluster = 8;                // blocks

/// A matrix, or the first of a stack of experts' matrices.
struct TiledPart {
  SoaView view;
  std::int64_t rows = 0;
  float* out = nullptr;
  const float* bias = nullptr;  // of all experts, one after the other
  int first_tile = 0;           // of the launch's tiles of rows
  bool second = false;          // true: of the launch's second format
  std::size_t expert_stride = 0;
};

/// out[row of the output][row] (+)= part x + bias, for the rows of all parts; or, where
/// `ffn_hidden` is given, function(part 0 x) * (part 1 x), tiled as x.
struct TiledWork {
  TiledPart parts[kMaxJobs];
  int part_count = 0;
  int units = 0;   // of 32 columns, of a row
  int blocks = 0;  // of 256 columns; where the last has fewer, x has zeros instead
  const __half* x = nullptr;
  int tokens = 0;
  int token_tiles = 1;      // 1 for experts
  int cluster = 1;          // blocks that share the columns of a tile of rows
  std::int64_t stride = 0;  // of output rows
  bool add = false;
  bool by_four = false;  // rows of the output begin at 16 bytes, and have whole fours of all parts
  __half* ffn_hidden = nullptr;
  GateFunction function = GateFunction::kSilu;
  // Experts: each group has activations of its own, and its rows of the output are its choices.
  const ExpertGroup* groups = nullptr;
  const int* group_count = nullptr;
  const int* order = nullptr;
  int first_group = 0;
};

}  // namespace rigcast::engine::cuda
