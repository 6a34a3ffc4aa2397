#pragma once
// How much of a CPU a runtime's kernels reach.

#include <map>
#include <optional>
#include <string>

#include "core/base/sourced.hpp"
#include "core/base/units.hpp"

namespace rigcast {

struct CpuEfficiency {
  Sourced<double> read;                     // of RAM bandwidth, all cores, weights
  Sourced<BytesPerSecond> read_per_thread;  // what one thread can draw
  Sourced<double> socket_share;             // of the bandwidth that each further socket adds
  std::map<std::string, Sourced<double>> int8_share;  // of the cores' INT8 rate, by SIMD level
  Sourced<double> blas;                               // of the cores' FP32 rate, by a BLAS
  Sourced<double> speed;                              // scales the cores' rate
  Sourced<double> half_rate_batch;  // tokens that share a weight when a batch runs at half its rate
  Sourced<double> one_token;        // scales that rate when a weight meets one token
  Sourced<double> unoverlapped_share;  // of the shorter of reading and computing one token
  Sourced<double> experts;             // scales both rates for the experts of a MoE layer
  Sourced<double> attention;           // scales the rate for a batch's attention
  Sourced<double> cache;               // scales it for one token's attention
  Sourced<double> score;  // FLOPs worth of work that a score takes in a batch's attention
  // FLOPs worth of work that an element of the cache takes before queries meet it; of a quantized
  // cache.
  Sourced<double> cache_element, cache_element_quant;
  // FLOPs worth of that work that a thread does in a cycle while it shares a core, where a rig's
  // clock was measured: chains of instructions limit it, not their number. Else, and as far as it
  // has a core for itself, `cache` of the rate.
  std::optional<Sourced<double>> cache_per_cycle, cache_quant_per_cycle;
  std::optional<Sourced<double>> cache_queries;  // that share this work; absent: a whole group
  // Keys and values that the last-level cache keeps from token to token come so many times as fast,
  // weights `llc_weight_speedup` times; of so many of its sizes it keeps nothing. Absent: it never
  // does.
  std::optional<Sourced<double>> llc_kv_speedup, llc_weight_speedup, llc_capacity_factor;
  // Time of a byte of the cache, whose rows lie apart, to one of the weights; every read by queries
  // that share no work takes it again, as far as the CPU's own caches are too small. Absent: once,
  // as weights.
  std::optional<Sourced<double>> cache_stride;
  // As `unoverlapped_share`, of reading the cache; nullopt: one with the weights.
  std::optional<Sourced<double>> kv_unoverlapped_share;
  Sourced<Seconds> element;       // one thread's work on an element of a matrix's input or output
  Sourced<Seconds> barrier_time;  // one thread's, between operations, where threads meet
  std::optional<Sourced<double>>
      barrier_thread_exponent;  // it grows with so high a power of threads; absent: 1
  // The same where threads that wait ask memory for the weights that come next: one token's, but
  // for routed experts, of which nothing tells who comes next. Absent: they do not.
  std::optional<Sourced<double>> barrier_exponent_with_prefetch;
};

}  // namespace rigcast
