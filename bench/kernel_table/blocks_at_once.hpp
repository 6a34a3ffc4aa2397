#pragma once
// How many thread blocks of a kernel a GPU runs at once.

namespace rigcast::bench {

/// What a GPU's multiprocessors have, each.
struct GpuLimits {
  int multiprocessors = 0;
  int threads = 0, blocks = 0;
  int registers = 0;
  int shared_bytes = 0;
  int reserved_shared_bytes = 0;  // of every block, by the driver
  int shared_granularity = 128;   // a block's shared memory is a multiple of this
};

/// What a block takes.
struct BlockNeeds {
  int threads = 0;
  int registers = 0;  // of a thread
  int shared_bytes = 0;
};

/// Blocks that find threads, registers and shared memory on the whole GPU, if nothing else runs and
/// all of the memory that may be shared is. 0: not even one does.
int blocks_at_once(const GpuLimits& gpu, const BlockNeeds& block);

}  // namespace rigcast::bench
