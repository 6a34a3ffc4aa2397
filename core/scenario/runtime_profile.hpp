#pragma once
// How a runtime behaves: what it can do, what it allocates, what it overlaps and what its kernels
// reach of the hardware. Schema of the files: runtimes/README.md.

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/sourced.hpp"
#include "core/hardware/rig.hpp"
#include "core/model/quant_format.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast {

enum class KvPolicy { kVram, kRam, kStream, kPaged, kCombined, kSpill };
std::string_view name(KvPolicy policy);
std::optional<KvPolicy> kv_policy_from(std::string_view text);

enum class KvAllocation {
  kWholeContext,  // at load, for the context limit
  kPool,          // what is left of the memory, in blocks
  kBlocks,        // as the context grows; also all else as the project's own engine does
  kGrownByCopy,   // a new, longer tensor for every step
};
/// What the runtime's kernels are written in. kCpu: there is no GPU to drive.
enum class Backend { kCpu, kCuda, kRocm, kVulkan, kMetal, kSycl };
inline constexpr int kBackendCount = 6;
std::string_view name(Backend backend);
enum class LogitsRows { kUbatch, kPrompt, kLast };
enum class Staging { kPinned, kPageable };

/// Formats whose kernels do alike.
enum class FormatGroup { kFloat, kQ8, kQ4, kQ5, kQ2K, kQ3K, kQ4K, kQ5K, kQ6K, kIq };
inline constexpr int kFormatGroupCount = 10;
FormatGroup format_group(QuantFormat format);
std::string_view name(FormatGroup group);

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
  Sourced<double> speed;      // scales the rates of all matrix products
  Sourced<double> tile_half;  // tokens that share a weight at which half of the rate is reached
  Sourced<double> gemm_half;
  Sourced<double> power;        // exponent: rate falls with the watts that a FLOP/s may draw
  Sourced<double> experts;      // scales the rate where tokens are sorted to experts
  Sourced<double> expand;       // writing weights out as FP16: share of VRAM bandwidth
  Sourced<double> score_bytes;  // moved per score without flash attention, in VRAM traffic
  Sourced<double> pipeline;     // share of the other GPUs' time that several ubatches hide
};

/// How kernels cut their work into thread blocks, where that is known: what is idle of a GPU then
/// follows from shapes, instead of being part of the shares.
struct BlockEfficiency {
  Sourced<double> gemm_tile;     // rows, and tokens, of a block of a float product
  Sourced<double> tile_rows;     // rows of a block that multiplies quantized weights with a batch
  Sourced<double> tile_tokens;   // at most
  Sourced<Seconds> tile_start;   // of each matrix: what such blocks take besides multiplying
  Sourced<double> halves_from;   // batches of so many tokens write quantized weights out as halves
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

struct CpuEfficiency {
  Sourced<double> read;                     // of RAM bandwidth, all cores, weights
  Sourced<BytesPerSecond> read_per_thread;  // what one thread can draw
  Sourced<double> socket_share;             // of the bandwidth that each further socket adds
  std::map<std::string, Sourced<double>> int8_share;  // of the cores' INT8 rate, by SIMD level
  Sourced<double> blas;                               // of the cores' FP32 rate, by a BLAS
  Sourced<double> speed;                              // scales the cores' rate
  Sourced<double> batch_half;  // tokens that share a weight when a batch runs at half its rate
  Sourced<double> one_token;   // scales that rate when a weight meets one token
  Sourced<double> exposed;     // of the shorter of reading and computing one token
  Sourced<double> experts;     // scales both rates for the experts of a MoE layer
  Sourced<double> attention;   // scales the rate for a batch's attention
  Sourced<double> cache;       // scales it for one token's attention
  Sourced<double> score;       // FLOPs worth of work that a score takes in a batch's attention
  // FLOPs worth of work that an element of the cache takes before queries meet it; of a quantized
  // cache.
  Sourced<double> cache_element, cache_element_quant;
  // FLOPs worth of that work that a thread does in a cycle while it shares a core, where a rig's
  // clock was measured: chains of instructions limit it, not their number. Else, and as far as it
  // has a core for itself, `cache` of the rate.
  std::optional<Sourced<double>> cache_per_cycle, cache_quant_per_cycle;
  std::optional<Sourced<double>> cache_queries;  // that share this work; absent: a whole group
  // Keys and values that the last-level cache keeps from token to token come so many times as fast,
  // weights `kept_weights` times; of so many of its sizes it keeps nothing. Absent: it never does.
  std::optional<Sourced<double>> kept_speed, kept_weights, kept_sizes;
  // Time of a byte of the cache, whose rows lie apart, to one of the weights; every read by queries
  // that share no work takes it again, as far as the CPU's own caches are too small. Absent: once,
  // as weights.
  std::optional<Sourced<double>> cache_stride;
  // As `exposed`, of reading the cache; nullopt: one with the weights.
  std::optional<Sourced<double>> cache_exposed;
  Sourced<Seconds> element;        // one thread's work on an element of a matrix's input or output
  Sourced<Seconds> operation_gap;  // one thread's, between operations, where threads meet
  std::optional<Sourced<double>> gap_power;  // it grows with so high a power of threads; absent: 1
  // The same where threads that wait ask memory for the weights that come next: one token's, but
  // for routed experts, of which nothing tells who comes next. Absent: they do not.
  std::optional<Sourced<double>> gap_ahead_power;
};

/// What builds of a time did differently, as factors on the profile's own figures.
struct Era {
  double year = 0;               // 2024.5 is July 2024
  Sourced<double> graph_launch;  // gaps inside a captured CUDA graph, to CUDA's launch
  Sourced<double> launch;        // gaps of all backends
  Sourced<double> moe_kernels;   // launches of a MoE layer
  Sourced<double> tiles;         // rate of quantized tiles
};

/// The factors at one time: 1 where nothing is known.
struct EraFactors {
  double graph_launch = 1, launch = 1, moe_kernels = 1, tiles = 1;
};

struct RuntimeProfile {
  std::string id;
  std::string name;
  std::string era;
  std::string source;
  std::string base;  // id of the profile whose figures fill in; empty: none
  std::vector<KvPolicy> kv_policies;
  std::vector<std::string> fitted_on;  // configurations of which runs gave figures of this profile
  bool weight_streaming = false;       // decode: weights of host layers may be copied to the GPU
  bool quantized_v_needs_flash = false;
  bool cpu_decode = false;  // decode on the CPU after prefill on the GPU
  bool ffn_in_ram = false;  // dense FFNs may be the host's while the rest of a layer is a GPU's

  struct Memory {
    KvAllocation kv = KvAllocation::kWholeContext;
    TokenCount kv_padding = 1;  // attention reads cells rounded up to this
    LogitsRows logits = LogitsRows::kLast;
    bool maps_file = false;  // host weights are the file's own pages
    Bytes process;           // what the program itself takes of RAM
    Bytes process_gpu;       // and with a GPU besides: the driver's own
    Bytes process_cublas;    // where it multiplies batches through cuBLAS
    Bytes process_experts;   // instead, where FFNs are experts, which have kernels of their own
    Bytes process_file;      // where the model comes from a file, beside `staging`
    Bytes staging;           // pinned buffers per GPU
  } memory;

  struct Load {
    Bytes chunk;
    bool overlap = false;  // disk reads run ahead of the copies to the GPU
    Staging staging = Staging::kPinned;
    Sourced<double> ssd_share;          // of what the SSD gives
    bool maps_pages = false;            // reads by mapping: at what that was measured to reach
    Sourced<BytesPerSecond> host_copy;  // page cache to buffer, one pipeline
    int readers = 1;                    // threads that read what goes to a GPU
  } load;

  struct Prefill {
    TokenCount stream_min_batch = 32;  // host weights are copied to the GPU from this batch on
    bool streams = false;
    bool streams_alone = true;   // also where the GPU decodes nothing
    bool overlap = false;        // the next weights are copied while these compute
    bool picks_faster = false;   // streams only where that beats the CPU
    bool whole_prompt = false;   // one batch, whatever the ubatch setting
    bool cpu_attention = false;  // with KV in RAM, the prompt's attention is on the CPU too
    Staging staging = Staging::kPageable;
    Sourced<double> mapped_share;    // of the pinned link rate, from the pages of a mapped file
    bool experts_need_more = false;  // experts stream from min batch x experts / used experts on
    Sourced<double> experts_since;   // year before which experts in RAM were never streamed
  } prefill;

  struct Decode {
    Sourced<Seconds> crossing;      // one handoff between CPU and GPU
    Sourced<Seconds> gpu_crossing;  // between two GPUs
    Sourced<Seconds> token;         // host work for each token besides sampling
    Sourced<Seconds> sample;
    Sourced<Seconds> host_logit;       // and of each logit of a head that a GPU leaves to the host
    Sourced<Seconds> tokenize;         // one prompt token
    Sourced<double> wide_heads;        // the same, of heads with more than 256 dimensions
    Sourced<double> kv_without_flash;  // attention's reads, scaled, without flash attention
    // Cycles of one GPU unit for each cached token, query head and element of the head.
    Sourced<double> kv_cycles, kv_cycles_quant;
    Sourced<double> expert_cycles;   // scales a GPU's cycles for routed experts
    Sourced<double> stream_share;    // of the pinned link rate that streamed weights and KV reach
    Sourced<Seconds> copy_start;     // of each of the copies that cold blocks come in
    Sourced<Seconds> cold_question;  // of a layer's, to the host about cold blocks, and its answer
    int prefetch_depth = 0;          // buffers for streamed layers; 0: fetched when needed
    bool copies_kv = false;          // the cache is copied whole at every step
    bool expands_kv = false;         // attention first writes K and V out once for every query head
  } decode;

  /// Launches in a layer: latent or recurrent in place of attention, moe in place of ffn.
  struct Kernels {
    Sourced<double> attention, latent, recurrent, ffn, moe, head;
  } kernels;

  std::map<std::string, GpuEfficiency> gpu;  // by architecture; "default" always exists
  std::array<FormatEfficiency, kFormatGroupCount> formats;
  bool tells_q5_apart = false;                            // else Q5_0 and Q5_1 are of the group q4
  std::array<BackendEfficiency, kBackendCount> backends;  // by Backend
  WindowsEfficiency windows;
  BatchEfficiency batch;
  std::optional<BlockEfficiency> blocks;
  Sourced<double> graphs_since;  // year from which one GPU's token is a captured graph
  Sourced<double> tiles_since;   // year before which batches were written out as FP16 first
  std::vector<Era> eras;         // by year; between two, on a straight line
  CpuEfficiency cpu;

  struct Uncertainty {
    Sourced<double> decode, prefill, load;  // half-width of the 80 % interval, as a share
  } uncertainty;

  /// Where four of five measured speeds lay, as shares of the forecast, when the chip was left out
  /// of the fit.
  struct Spread {
    std::string metric;  // "tg_tps", "pp_tps"
    std::string regime;  // as name(Regime) gives it; "all": of every regime without its own
    double low = 1, high = 1;
    int rows = 0, chips = 0;
  };
  std::vector<Spread> spreads;
  /// Of the regime, else of all; nullptr if nothing was measured.
  const Spread* spread(std::string_view metric, std::string_view regime) const;

  const GpuEfficiency& gpu_efficiency(const GpuPart& part) const;
  const FormatEfficiency& format(QuantFormat f) const;
  /// At a build of `year`; that of the profile's last era without one.
  EraFactors era_at(std::optional<double> year) const;
  bool has(KvPolicy policy) const;
  std::string kv_policy_names() const;
};

/// The file's figures; what it lacks comes from the profile that it names as its `base`. Figures in
/// fitted/ beside it, written by `rigcast calibrate`, win over both unless `with_fit` is false.
Result<RuntimeProfile> load_runtime_profile(const std::filesystem::path& file,
                                            bool with_fit = true);

}  // namespace rigcast
