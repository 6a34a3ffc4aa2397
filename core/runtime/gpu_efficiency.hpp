#pragma once
// Efficiency of a runtime's kernels on a GPU.

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/sourced.hpp"
#include "core/base/units.hpp"

namespace rigcast {

/// Efficiency on one GPU architecture. Shares refer to the data sheet's rates.
struct GpuEfficiency {
  Sourced<double> read;       // share of VRAM bandwidth, streaming
  Sourced<double> cycles;     // cycles in which one unit unpacks and multiplies a byte of weights,
                              // one token
  Sourced<double> launch;     // factor on the backend's launch overhead
  Sourced<double> kv_read;    // share of VRAM bandwidth, one token's attention over the cache
  Sourced<double> gemm;       // share of gemm_rate(), large batches
  Sourced<double> tiles;      // share of tile_rate(), large batches
  Sourced<double> attention;  // share of gemm_rate(), a batch's attention
  // Factor on the batch at which products reach half of their rate: wide tiles need more tokens.
  Sourced<double> half_rate_batch;
};

/// Factors for the kernels of one format group, relative to the other groups.
struct FormatEfficiency {
  Sourced<double> cycles;  // one token: scales GpuEfficiency::cycles
  Sourced<double> batch;   // scales the rate of a batch
  Sourced<double> cpu;     // scales the CPU's rate, one token
  Sourced<double> cpu_batch;
};

struct BackendEfficiency {
  Sourced<Seconds> launch;       // launch overhead: from one kernel's end to the start of the next
  Sourced<double> graph_launch;  // factor on `launch` inside a captured graph
  /// The host's clock with which `launch` was measured, which on another host is in inverse
  /// proportion to the clock of a core; absent: `launch` is the same on every host.
  std::optional<Sourced<Hertz>> launch_clock;
  Sourced<double> slow_host;  // factor on `launch` where a small CPU core drives the GPU
  Sourced<double> read;       // factor on the GPU's shares
  Sourced<double> batch;
  Sourced<double> attention;
  // Launches beside the product of a matrix with a batch: of a quantized one, of one of floats.
  Sourced<double> batch_kernels, float_kernels;
  Sourced<Seconds> start;  // of a load: the driver's context, where the rig does not tell
  // Rows, and tokens, of a thread block of its library's products of floats; 0: all units are busy.
  Sourced<double> gemm_tile;
  /// A batch's flash attention computes every cell of the cache, masked or not, but in builds since
  /// `masked_since` with at least `masked_tokens` tokens: those leave out what comes after each
  /// token, and, with `masked_windows`, what its window no longer reaches. 0: masked cells are
  /// never computed.
  Sourced<double> masked_since, masked_tokens;
  bool masked_windows = false;
  /// Whether quantized weights of a batch are multiplied on INT8 matrix units. Otherwise they are
  /// multiplied as FP16 on matrix units where the backend uses any, and else by 8-bit dot products
  /// in builds since the year for their format, of blocks of 32 weights or of 256; 0: never.
  bool int8_units = true;
  Sourced<double> dots_since, dots_256_since;
};

/// Factors on Windows, relative to Linux.
struct WindowsEfficiency {
  Sourced<double> launch;  // kernels go through the display driver's queue
  Sourced<double> cpu;     // share of the cores' rate with other compilers and schedulers
};

/// Efficiency of a batch of tokens on a GPU.
struct BatchEfficiency {
  Sourced<double> speed;  // scales the rates of all matrix products
  Sourced<double>
      tile_half_rate_batch;  // tokens that share a weight when half of the rate is reached
  Sourced<double> gemm_half_rate_batch;
  Sourced<double> power;    // exponent with which the rate falls with watts per FLOP/s
  Sourced<double> experts;  // scales the rate where tokens are sorted to experts
  // In its place, of a server's kernels that turn the experts' weights into 16 bits.
  Sourced<double> packed_experts;
  // CUDA builds since that year multiply the tokens of all experts in one kernel, those before of
  // one expert after the other. Its tiles are for batches, up to so many columns wide, however few
  // tokens an expert gets, and `expert_tiles` scales its rate in place of `experts`. 0: as many
  // columns as an expert gets; with no year, no loop either.
  Sourced<double> expert_columns, expert_columns_since, expert_tiles;
  // Architectures for which builds since that year choose the tile's width by the mean tokens of an
  // expert instead of the batch's.
  std::vector<std::string> expert_widths;
  Sourced<double> expert_widths_since;
  // Matrix units for 8- and 4-bit floats: the share of their rate that products reach, of what
  // those of 16 bits reach.
  Sourced<double> low_precision;
  Sourced<double> expand;        // writing weights out as FP16: share of VRAM bandwidth
  Sourced<double> score_bytes;   // bytes of VRAM traffic per score, without flash attention
  Sourced<double> vector_bytes;  // moved by kernels between a batch's products, for each element
                                 // that these take or give; 0: hidden by the products
  Sourced<double> pipeline;      // share of the other GPUs' time that pipelined ubatches hide
  Sourced<double> launch;        // factor on the launch overhead, for a batch
  // Cycles of a unit in which it does what matrix instructions do not: per 1,000 FLOPs the products
  // with the scales of quantized blocks, and per score the softmax of attention.
  Sourced<double> tile_cycles, score_cycles;
};

/// Tiles of many tokens, which multiply quantized weights as they lie. A unit has one block of
/// `tokens` at once, or two of half as many, which batches of up to that many have. Where there are
/// fewer blocks than run at once, several share the columns of one.
struct WideTiles {
  Sourced<double> until_batch;   // the largest batch; longer ones are written out as FP16
  Sourced<double> rows, tokens;  // of a block
  // Of a round of blocks that units have one of, besides the multiplications. Of two, one begins
  // while the other multiplies.
  Sourced<Seconds> start;
  Sourced<double> rate;  // share of the rate of FP16 products
  // The same of blocks of half as many tokens; and of those that a unit has one of, because weights
  // of their format need the registers of two.
  Sourced<double> half_rate, single_rate;
  Sourced<Seconds> sharing;  // for each further block that shares columns: sums are added
};

/// A batch's attention by warpgroups, whose matrix instructions read shared memory: of heads of up
/// to `max_dim` elements, with the rows of a whole block or more, whose last token sees `min_keys`
/// or more. A unit has one block at a time.
struct WarpgroupAttention {
  Sourced<double> max_dim, min_keys;
  Sourced<Seconds> key, step;  // as BlockEfficiency::attention_key and attention_step
  // Of a quantized cache: the time in which copying warps convert an element of a key or a value,
  // beside the products of others. Absent: such caches have the other kernels.
  std::optional<Sourced<Seconds>> convert;
};

/// Blocks of attention, but of warpgroups, of heads of more than `above` elements. Each has up to
/// `values` elements of a value: blocks share those of wider heads, and each computes all scores.
struct WideHeadAttention {
  Sourced<double> above, rows, values;
};

/// Thread-block shapes of the kernels, where they are known. Idle units then follow from shapes,
/// instead of being part of the shares.
struct BlockEfficiency {
  // Of GPUs whose batches these figures were fitted on; empty: of all.
  std::vector<std::string> architectures;
  // Of GPUs on which a batch's quantized weights are written out as FP16, however short it is.
  std::vector<std::string> writes_out;
  Sourced<double> gemm_tile;    // rows, and tokens, in a block of a float product
  Sourced<double> tile_rows;    // rows in a block of a quantized product with a batch
  Sourced<double> tile_tokens;  // at most
  Sourced<Seconds> tile_start;  // time per kernel besides the multiplications of such blocks
  // Of experts, whose tokens are multiplied in groups: the tokens of a group with which blocks
  // reach half of their rate. Absent: tile_half_rate_batch, and all of an expert's tokens at once.
  std::optional<Sourced<double>> expert_half_rate_batch;
  // Factor on the rate of tiles, of experts as well, on GPUs that are not among `architectures`,
  // and of formats that have no tiles on those: other kernels multiply them. Absent: 1.
  std::optional<Sourced<double>> other_tiles;
  // FP16 FLOPs in a cycle of a unit (SM) of the GPUs on which tile_half_rate_batch and
  // expert_half_rate_batch were fitted. Unpacking weights takes lanes: a GPU with slower matrix
  // units reaches half of its rate with fewer tokens. Absent: with as many.
  std::optional<Sourced<double>> half_rate_flops;
  Sourced<double> fp16_from_batch;  // batch size from which quantized weights are written out as
                                    // FP16, but for wide tiles
  std::optional<WideTiles> wide;    // of the GPUs among `architectures`
  Sourced<double> token_rows;       // rows of one token's products that a unit computes at once
  // Bits a weight up to which a unit runs a fifth block of these, where that saves a round.
  Sourced<double> fifth_block_bits;
  Sourced<double> token_idle;  // share of idle units' time in which they would have read
  // Factors on the launch overhead, for a batch: of the host's time for a launch, and of the gap
  // between two kernels that have been launched.
  Sourced<double> launch, gap;
  Sourced<double> tile_read;       // share of the read rate, of quantized weights in such blocks
  Sourced<double> vector_bytes;    // bytes moved between a batch's products, per element of
                                   // activations
  Sourced<double> attention_rows;  // rows (tokens x query heads of a group) in a block of attention
  std::optional<WideHeadAttention> wide_head_attention;
  // Keys from which on one more block shares those of a block of attention, where fewer blocks than
  // units have rows; 0: none does.
  Sourced<double> attention_split_keys;
  // Time of a block of a batch's attention per key, and per element of a key, however few blocks
  // there are.
  Sourced<Seconds> attention_key, attention_step;
  std::optional<WarpgroupAttention> warpgroup_attention;  // of the GPUs among `architectures`
  // Of latent attention: the heads that share a read of the cache, and the time of a block of them
  // and one token of a batch for each key. Absent: as other attention.
  std::optional<Sourced<double>> latent_heads;
  std::optional<Sourced<Seconds>> latent_key;
  // Of recurrent layers: cycles of a unit for each value of a state that a token of a batch passes;
  // and how long every token takes, one after the other, however small the state is.
  Sourced<double> scan_cycles;
  Sourced<Seconds> scan_step;
  // Of a batch's choice of experts: the time of a block of the router for each of its columns, of
  // the choice for each expert of a token, and of sorting for each choice of all tokens.
  Sourced<Seconds> router_column, choice_round, sorted_choice;
  // The time of a block of one token's attention, of a sequence in a batch, however short its cache
  // is. Absent: none.
  std::optional<Sourced<Seconds>> single_start;
  // Of a batch's attention over a quantized cache: the factor on its rate; and how much longer a
  // block takes for an element of a key or a value, however few blocks there are.
  Sourced<double> quantized_cache;
  Sourced<Seconds> quantized_key;
  Sourced<Seconds> quantized_start;  // extra time of one token's attention over such a cache,
                                     // however short

  [[nodiscard]] bool is_of(std::string_view architecture) const {
    return architectures.empty() || std::ranges::count(architectures, architecture) > 0;
  }
};

}  // namespace rigcast
