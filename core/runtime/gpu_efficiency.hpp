#pragma once
// How much of a GPU a runtime's kernels reach.

#include "core/base/sourced.hpp"
#include "core/base/units.hpp"

namespace rigcast {

/// What a runtime's kernels reach on one GPU architecture. Shares are of the data sheet's rate.
struct GpuEfficiency {
  Sourced<double> read;       // of VRAM bandwidth, streaming
  Sourced<double> cycles;     // of one unit, to unpack and multiply a byte of weights by one token
  Sourced<double> launch;     // scales the backend's gap between kernels
  Sourced<double> kv_read;    // of VRAM bandwidth, one token's attention over the cache
  Sourced<double> gemm;       // of gemm_rate, large batches
  Sourced<double> tiles;      // of tile_rate, large batches
  Sourced<double> attention;  // of gemm_rate, a batch's attention
};

/// How much more or less the kernels of a format group reach than those of the others.
struct FormatEfficiency {
  Sourced<double> cycles;  // one token: scales GpuEfficiency::cycles
  Sourced<double> batch;   // scales the rate of a batch
  Sourced<double> cpu;     // scales the CPU's rate, one token
  Sourced<double> cpu_batch;
};

struct BackendEfficiency {
  Sourced<Seconds> launch;    // from one kernel's end to the next one's start
  Sourced<double> slow_host;  // scales it where a small core drives the GPU
  Sourced<double> read;       // scales the GPU's shares
  Sourced<double> batch;
  Sourced<double> attention;
};

/// What Windows scales, beside Linux.
struct WindowsEfficiency {
  Sourced<double> launch;  // kernels go through the display driver's queue
  Sourced<double> cpu;     // what other compilers and schedulers leave of the cores' rate
};

/// A batch of tokens on a GPU.
struct BatchEfficiency {
  Sourced<double> speed;  // scales the rates of all matrix products
  Sourced<double>
      tile_half_rate_batch;  // tokens that share a weight at which half of the rate is reached
  Sourced<double> gemm_half_rate_batch;
  Sourced<double> power;        // exponent: rate falls with the watts that a FLOP/s may draw
  Sourced<double> experts;      // scales the rate where tokens are sorted to experts
  Sourced<double> expand;       // writing weights out as FP16: share of VRAM bandwidth
  Sourced<double> score_bytes;  // moved per score without flash attention, in VRAM traffic
  Sourced<double> pipeline;     // share of the other GPUs' time that several ubatches hide
};

/// How kernels cut their work into thread blocks, where that is known: what is idle of a GPU then
/// follows from shapes, instead of being part of the shares.
struct BlockEfficiency {
  Sourced<double> gemm_tile;    // rows, and tokens, of a block of a float product
  Sourced<double> tile_rows;    // rows of a block that multiplies quantized weights with a batch
  Sourced<double> tile_tokens;  // at most
  Sourced<Seconds> tile_start;  // of each matrix: what such blocks take besides multiplying
  Sourced<double>
      fp16_from_batch;           // batches of so many tokens write quantized weights out as halves
  Sourced<double> token_rows;    // that a unit has at once of one token's products
  Sourced<double> token_idle;    // of the time that idle units could read in, what they do not
  Sourced<double> launch;        // scales the gap between kernels for a batch
  Sourced<double> vector_bytes;  // moved between a batch's products, for an element of theirs
  Sourced<double> attention_rows;  // tokens x query heads of a group, in a block of attention
  // What a block of a batch's attention takes for a key, and for each of its elements, however few
  // blocks there are.
  Sourced<Seconds> attention_key, attention_step;
  Sourced<double> quantized_cache;   // scales a batch's attention where its cache is
  Sourced<Seconds> quantized_start;  // and what one token's takes longer, however short the cache
};

}  // namespace rigcast
