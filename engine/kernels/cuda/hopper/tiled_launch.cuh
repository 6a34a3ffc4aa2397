#pragma once
// Launches of the kernel for tiled activations, which only code for "90a" holds.

#include <cstdint>

#include "core/model/quant_format.hpp"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/hopper/tiled_work.cuh"

namespace rigcast::engine::cuda {

/// The formats of a launch; `second`: of parts that say so, the same or one that occurs beside the
/// first in files.
struct TiledFormats {
  QuantFormat first, second;
};

/// Queues the kernel for `tiles` tiles of rows and `groups` groups, each with room for
/// tiled_tokens(tokens) tokens.
void launch_tiled(const TiledFormats& formats, int tokens, const TiledWork& work,
                  std::int64_t tiles, int groups, Start start, const Stream& stream);

/// The clusters of so many blocks that run at once, with tiled_tokens(tokens) tokens: the blocks of
/// one run on multiprocessors of one group (GPC), and groups differ in size. `cluster`: 1 to
/// kMaxCluster. Throws CudaFailure.
int tiled_clusters(const TiledFormats& formats, int tokens, int cluster);

/// True if the program has code of the kernel.
bool has_tiled_code();

}  // namespace rigcast::engine::cuda
