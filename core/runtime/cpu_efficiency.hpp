#pragma once
// Efficiency of a runtime's kernels on a CPU: shares of the hardware's rates, and times.

#include <map>
#include <optional>
#include <string>

#include "core/base/sourced.hpp"
#include "core/base/units.hpp"

namespace rigcast {

struct CpuEfficiency {
  Sourced<double> read;                     // share of RAM bandwidth, reading weights with all
                                            // cores
  Sourced<BytesPerSecond> read_per_thread;  // largest read rate of one thread
  // Share of the cores' INT8 rate, by SIMD level.
  std::map<std::string, Sourced<double>, std::less<>> int8_share;
  Sourced<double> blas;             // share of the cores' FP32 rate that a BLAS
                                    // reaches
  Sourced<double> speed;            // scales the cores' rate
  Sourced<double> half_rate_batch;  // tokens that share a weight when a batch runs at half its rate
  Sourced<double> one_token;        // scales that rate when a weight meets one token
  // Up to 8 tokens that share a weight: the work for each further one, relative to the first, for
  // which it is unpacked. Absent: 1.
  std::optional<Sourced<double>> further_token;
  Sourced<double> unoverlapped_share;  // share of min(read, compute) that is not overlapped, one
                                       // token
  Sourced<double> experts;             // scales both rates for the experts of a MoE layer
  // Time of all threads for each expert that a batch hits, and each of its matrices: threads take
  // rows of one expert after the other, from a counter.
  Sourced<Seconds> expert_start;
  Sourced<double> attention;  // scales the rate for a batch's attention
  Sourced<double> cache;      // scales it for one token's attention
  Sourced<double> score;      // work per score in a batch's attention, in FLOPs
  // Work to unpack an element of the cache, in FLOPs; and of a quantized cache.
  Sourced<double> cache_element, cache_element_quant;
  // Unpacking work per cycle of a thread that shares a core, in FLOPs: dependent instructions limit
  // it, not their number. It applies where a rig's clock was measured. Otherwise, and for threads
  // with a core to themselves, `cache` scales the rate.
  std::optional<Sourced<double>> cache_per_cycle, cache_quant_per_cycle;
  std::optional<Sourced<double>> cache_queries;  // number of queries that share this work; absent:
                                                 // a whole group
  // The last-level cache: reads of keys and values that it holds are `llc_kv_speedup` times as
  // fast, of weights `llc_weight_speedup` times. Its hit rate falls to 0 at `llc_capacity_factor`
  // times its size. Absent: it holds nothing from token to token.
  std::optional<Sourced<double>> llc_kv_speedup, llc_weight_speedup, llc_capacity_factor;
  // Time to read a byte of the KV cache, whose rows are strided, relative to a byte of weights.
  // Queries that share no work repeat the read, as far as the CPU's caches are too small. Absent:
  // the cache is read once, as fast as weights.
  std::optional<Sourced<double>> cache_stride;
  // Year of the builds whose threads share the cells of the cache: each reads its own once, in the
  // order in which they lie. In builds of before they share the heads. Absent: as `cache_stride`
  // and `cache_queries` say.
  std::optional<Sourced<double>> cache_split_since;
  // The `unoverlapped_share` of reading the cache; nullopt: weights and cache have one share.
  std::optional<Sourced<double>> kv_unoverlapped_share;
  // The rate of a batch in a layout of tiles (AMX), relative to vectors; absent: as vectors.
  std::optional<Sourced<double>> tiles;
  // The same in a layout whose rows are interleaved; absent: as in the file's order.
  std::optional<Sourced<double>> interleaved;
  // Float weights are multiplied as FP32, and the factors of their formats are shares of that rate;
  // false: relative to the other formats.
  bool floats_as_fp32 = false;
  bool all_vector_units = false;  // bound one token's products, in place of multipliers alone
  bool one_by_one = false;  // products of a batch take no longer than those of its tokens alone
  // The widest vectors of the kernels for one token, in bytes; absent: the core's own.
  std::optional<Sourced<double>> vector_bytes;
  // The rate of two threads that share a core, relative to one that has it alone. It applies where
  // a rig's probe tells that threads share cores, and then the rate of a core is that of such a
  // thread; absent: a core's rate is its share of the rate of all.
  std::optional<Sourced<double>> two_threads;
  Sourced<Seconds> element;       // one thread's time for an element of a matrix's input or output
  Sourced<Seconds> barrier_time;  // one thread's time at a barrier between operations
  std::optional<Sourced<double>>
      barrier_thread_exponent;  // exponent of the thread count with which it grows; absent: 1
  // The exponent where waiting threads prefetch the next weights: for one token, except before
  // routed experts, which are not known in advance. Absent: waiting threads do not prefetch.
  std::optional<Sourced<double>> barrier_exponent_with_prefetch;
};

}  // namespace rigcast
