#pragma once
// The behaviour of a runtime: its features, what it allocates and overlaps, and the efficiency of
// its kernels. Schema of the files: runtimes/README.md.

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/metrics.hpp"
#include "core/base/sourced.hpp"
#include "core/hardware/rig.hpp"
#include "core/model/quant_format.hpp"
#include "core/runtime/backend.hpp"
#include "core/runtime/cpu_efficiency.hpp"
#include "core/runtime/dated_change.hpp"
#include "core/runtime/format_group.hpp"
#include "core/runtime/gpu_efficiency.hpp"
#include "core/runtime/kv_policy.hpp"
#include "core/runtime/matrix_units.hpp"
#include "core/runtime/scheduler_policy.hpp"
#include "core/runtime/split_mode.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast {

/// The rules that memory and steps follow; each has an implementation in perfmodel/runtimes.
enum class RuntimeRules { kLlamaCpp, kTransformers, kRigcast, kPagedServer };
std::string_view name(RuntimeRules rules);

enum class LogitsRows { kUbatch, kPrompt, kLast };
enum class Staging { kPinned, kPageable };

struct RuntimeProfile {
  // Compiled once: inline, they were half of the code of sources that hold one.
  RuntimeProfile();
  RuntimeProfile(const RuntimeProfile&);
  RuntimeProfile(RuntimeProfile&&) noexcept;
  RuntimeProfile& operator=(const RuntimeProfile&);
  RuntimeProfile& operator=(RuntimeProfile&&) noexcept;
  ~RuntimeProfile();

  std::string id;
  std::string name;
  std::string era;
  std::string source;
  std::string base;  // id of the profile that supplies missing figures; empty: none
  /// All files from which its figures come, and those to which fitted figures would be written.
  std::vector<std::filesystem::path> files;
  RuntimeRules rules = RuntimeRules::kLlamaCpp;
  std::vector<KvPolicy> kv_policies;
  std::vector<SplitMode> split_modes;  // beside whole layers, one GPU after the other
  std::vector<std::string> fitted_on;  // configurations on whose runs figures of this profile were
                                       // fitted
  bool weight_streaming = false;       // decode: weights of host layers may be copied to the GPU
  bool quantized_v_needs_flash = false;
  bool cpu_decode = false;  // decode on the CPU after prefill on the GPU
  bool projector = false;   // takes a vision projector (--mmproj)
  bool speculates = false;  // takes a draft model for speculative decoding (--model-draft)
  // A GPU that attends over a cache in RAM copies it for each batch, in whole cells and from
  // pageable memory; with flash attention also under the KV policy `ram`, else the CPU attends
  // there.
  bool copies_ram_cache = false;
  bool low_precision = false;  // weights of 8 and 4 bits are multiplied by matrix units that have
                               // them, with activations of as many bits; elsewhere as 16 bits
  bool fp32_sums = false;      // matrix units add in FP32, at which some GPUs have half of the rate
  bool ffn_in_ram = false;  // dense FFNs may be on the host while the rest of a layer is on a GPU

  struct Memory {
    TokenCount kv_padding = 1;  // attention reads cells rounded up to this
    LogitsRows logits = LogitsRows::kLast;
    /// Year before which the logits of the whole prompt were computed; absent: none.
    std::optional<Sourced<double>> last_logits_since;
    /// Year before which values of multi-head latent attention were cached beside the keys that
    /// contain them; absent: never.
    std::optional<Sourced<double>> latent_values_until;
    /// Year before which all heads were cached instead of the latent vectors; absent: none.
    std::optional<Sourced<double>> latent_since;
    bool maps_file = false;       // host weights are the file's own pages
    bool pages_in = false;        // and may be more than RAM holds
    Bytes process;                // RAM of the program itself
    Bytes process_gpu;            // and of the GPU driver, if there is a GPU
    Bytes process_cublas;         // and of cuBLAS, where it multiplies batches
    Bytes process_cublas_floats;  // instead, where none of its products has results in F16
    Bytes process_recurrent;      // and of the kernels of recurrent layers
    bool keeps_vectors = false;   // the host keeps biases and norms of layers on a GPU
    Bytes graph_layer;            // of a layer, in each recorded graph of a server's steps
    Bytes graph_experts_layer;    // instead, where its FFN is experts
    Bytes process_file;           // where the model comes from a file, in addition to `staging`
    Bytes staging;                // pinned buffers per GPU
    Bytes headroom;             // of each GPU, that the runtime leaves free where it places layers
    bool fits_experts = false;  // where it does, experts move to host memory before whole layers
    std::vector<std::string> full_caches;  // architectures whose sliding windows it ignores
    /// The year of the first builds whose layers with a window cache no more than that; absent:
    /// all.
    std::optional<Sourced<double>> windows_since;
  } memory;

  struct Load {
    Bytes chunk;
    bool overlap = false;  // disk reads overlap the copies to the GPU
    Staging staging = Staging::kPinned;
    Sourced<double> ssd_share;          // share of the SSD's rate
    bool maps_pages = false;            // reads mapped pages, at the measured rate of mapped reads
    Sourced<BytesPerSecond> host_copy;  // from page cache to buffer, one pipeline
    int readers = 1;                    // threads that read weights for a GPU
    Sourced<Seconds> vocabulary;        // for each token of the model's vocabulary, on one core
    std::optional<Sourced<BytesPerSecond>> map;     // of pages in the page cache into a mapping
    std::optional<Sourced<BytesPerSecond>> repack;  // weights into the order of the CPU's kernels
  } load;

  /// A layout of weights for the CPU's kernels, into which they are copied when a model is loaded.
  struct Repacking {
    QuantFormat format{};
    std::vector<std::string> simd;  // SIMD levels of CPUs that have it
    std::int64_t rows = 1;          // a matrix has a multiple of so many
    bool experts = true;            // matrices of experts too
    double block_bytes = 0;         // of a block in the buffer; 0: as in the file
    Sourced<double> since;          // year of the first builds

    bool in_tiles() const { return simd.size() == 1 && simd.front() == kAmx; }
  };
  std::vector<Repacking> repackings;  // of those that apply, the first is used

  struct Prefill {
    TokenCount stream_min_batch = 32;  // smallest batch for which host weights are copied to the
                                       // GPU
    bool streams = false;
    bool streams_alone = true;   // also when the GPU decodes nothing
    bool overlap = false;        // copies of the next weights overlap computation
    bool picks_faster = false;   // streams only if that is faster than the CPU
    bool whole_prompt = false;   // the prompt is one batch, whatever the ubatch setting
    bool cpu_attention = false;  // with KV in RAM, the prompt's attention is on the CPU too
    Staging staging = Staging::kPageable;
    bool pageable_pages = false;   // pages of a mapped file cross as other pageable memory does
    Sourced<double> mapped_share;  // of the rate from pageable memory, from pages of a mapped file
    bool experts_need_more = false;  // experts stream from min batch x experts / used experts on
    Sourced<double> experts_since;   // year before which experts in RAM were never streamed
    // Cycles of a core for each token and cell in the mask of attention, and the year from which
    // the host no longer looks at each of them.
    Sourced<double> mask_cycles, mask_until;
    // Builds before that year sort a batch's tokens by expert on the host, while a CUDA or ROCm GPU
    // waits: so long for each expert, token and expert of a token, before each matrix.
    Sourced<Seconds> expert_sort;
    Sourced<double> expert_sort_until;
    std::optional<Sourced<Seconds>> start;  // what a prompt takes besides its kernels; absent: none
  } prefill;

  struct Decode {
    Sourced<Seconds> crossing;      // one handoff between CPU and GPU
    Sourced<Seconds> gpu_crossing;  // between two GPUs
    Sourced<Seconds> token;         // host work for each token besides sampling
    Sourced<Seconds> sample;
    Sourced<Seconds> host_logit;       // host time per logit, where a GPU leaves them to the host
    Sourced<Seconds> tokenize;         // one prompt token
    Sourced<double> wide_heads;        // factor on attention of heads with more than 256 dimensions
    Sourced<double> kv_without_flash;  // factor on attention's reads without flash attention
    // Cycles of one GPU unit for each cached token, query head and element of the head.
    Sourced<double> kv_cycles, kv_cycles_quant;
    Sourced<double> kv_cycles_latent;  // of latent attention; else as kv_cycles
    Sourced<double> expert_cycles;     // scales a GPU's cycles for routed experts
    // Cycles of one GPU unit to multiply one weight with one token more than the first, where
    // products of a few tokens run as those of one.
    Sourced<double> token_cycles;
    // Of reading weights and of unpacking them, the shorter adds so much of its time on a GPU.
    Sourced<double> unoverlapped_share;
    // CUDA and ROCm builds since that year multiply float weights with one token in another kernel,
    // of so many times the cycles.
    Sourced<double> float_since, float_cycles;
    Sourced<double> stream_share;     // share of the pinned link rate for streamed weights and KV
    Sourced<Seconds> copy_start;      // latency of each copy of cold blocks
    Sourced<Seconds> host_roundtrip;  // round trip to the host for a layer's cold blocks
    int prefetch_depth = 0;           // buffers for streamed layers; 0: fetched when needed
    bool copies_kv = false;           // the cache is copied whole at every step
    bool returns_kv = false;          // a streamed cache is copied back whole at every step
    bool expands_kv = false;  // attention first writes K and V out once for every query head
    /// Year from which flash attention takes grouped K and V as they are; absent: it does not.
    std::optional<Sourced<double>> grouped_since;

    /// The number of buffers into which copies are prefetched: a copy waits until the operation
    /// that uses its buffer has ended.
    int prefetch_buffers() const { return std::max(2, prefetch_depth); }
  } decode;

  /// How it serves many requests; absent: one at a time.
  struct Server {
    SchedulerPolicy scheduler;
    Sourced<Seconds> request;   // from its arrival until it can be scheduled
    Sourced<Seconds> step;      // work of the host for a step, in which no GPU computes
    Sourced<Seconds> sequence;  // and for each sequence of a step
    Sourced<Seconds> logit;     // and for each logit of a token that is sampled
    // Of a pool of blocks that takes a share of a GPU's memory:
    Sourced<Bytes> unseen;        // of that memory, that the share is not of
    Sourced<Bytes> outside_pool;  // that the server keeps beside weights, activations and cache
    /// Defaults of GPUs with at least so much memory, the last that applies.
    struct GpuDefaults {
      Bytes from;
      std::vector<std::string> except;  // architectures that it does not apply to
      TokenCount step_tokens = 0;       // 0: as others
      std::size_t sequences = 0;        // 0: as others
      /// PoolRule::kStaticShare: what weights and pool leave, beside `reserved_per_token`, and what
      /// they leave at least.
      Bytes reserved, reserved_least;
    };
    std::vector<GpuDefaults> gpus;
    Sourced<Bytes> reserved_per_token;     // for each of a step's budget
    TokenCount reserved_least_tokens = 0;  // of which it is at least so many
  };
  std::optional<Server> server;

  /// Kernel launches of a layer: `latent` or `recurrent` in place of `attention`, `moe` in place of
  /// `ffn`. These include the two norms that every layer has.
  struct Kernels {
    Sourced<double> attention, latent, recurrent, ffn, moe, head;
    // Of recurrent layers that are no delta nets, where they are stated.
    std::optional<Sourced<double>> mamba, short_convolution;
    Sourced<double> norm;        // of each further norm of queries and keys
    Sourced<double> layer_norm;  // of each further norm of a layer's vector
    Sourced<double>
        head_width;  // of one token's attention, for each 128 values of a head beyond 128
    // Of one token's attention, in place of `attention`, where it is stated; and more for each
    // query head that shares a KV head.
    std::optional<Sourced<double>> token_attention;
    Sourced<double> query_head;
    // Of one token's experts, in place of `moe`, where it is stated; and more for each that is
    // chosen.
    std::optional<Sourced<double>> token_moe;
    Sourced<double> chosen_expert;
    Sourced<double> offload;  // more of them for a layer whose cache is streamed
    bool eager = false;       // an interpreter launches them one by one, ahead of a GPU's work and
                              // before the CPU's
  } kernels;

  std::map<std::string, GpuEfficiency> gpu;  // by architecture; "default" always exists
  std::array<FormatEfficiency, kFormatGroupCount> formats;
  bool has_q5_figures = false;                            // otherwise Q5_0 and Q5_1 belong to group
                                                          // q4
  std::array<BackendEfficiency, kBackendCount> backends;  // by Backend
  /// GPUs whose matrix units a backend uses. A backend without an entry uses those of all.
  std::vector<MatrixUnits> matrix_units;
  /// The same for products of quantized weights, where they are not used as early as for floats.
  std::vector<MatrixUnits> int8_matrix_units;
  WindowsEfficiency windows;
  BatchEfficiency batch;
  std::optional<BlockEfficiency> blocks;
  Sourced<double> graphs_since;  // year from which one GPU's token is a captured graph
  Sourced<double> tiles_since;   // year before which batches were written out as FP16 first
  /// Year from which the output head is the first of the layers on the GPU; before, or where it is
  /// absent: the last one.
  std::optional<Sourced<double>> head_first_since;
  std::vector<DatedChange> changes;
  CpuEfficiency cpu;

  /// What rows of one chip tell beyond its architecture: factors on the speed of its kernels.
  struct ChipFactors {
    Sourced<double> decode, prefill;
  };
  std::map<std::string, ChipFactors, std::less<>> chips;  // by id of GPU or CPU

  struct Uncertainty {
    Sourced<double> decode, prefill, load;  // half-width of the 80 % interval, as a share
  } uncertainty;

  /// Interval of four out of five measured speeds, as shares of the forecast, when the chip was
  /// left out of the fit.
  struct Spread {
    SpeedMetric metric = SpeedMetric::kDecode;
    std::string regime;  // name(Regime); "all": every regime without an interval of its own
    double low = 1, high = 1;
    int rows = 0, chips = 0;
  };
  std::vector<Spread> spreads;
  /// The same where the chip's whole family was left out; `chips` counts families.
  std::vector<Spread> family_spreads;
  /// The interval of the regime, else that of all regimes; nullptr if nothing was measured.
  const Spread* spread(SpeedMetric metric, std::string_view regime) const;
  const Spread* family_spread(SpeedMetric metric, std::string_view regime) const;

  /// Rows by which figures were fitted, of one family of chips (core/scenario/chip_family.hpp).
  struct MeasuredFamily {
    std::string family;
    bool slow_host = false;  // a CPU with small cores launched the GPUs' kernels
    int decode_rows = 0, prefill_rows = 0;
  };
  std::vector<MeasuredFamily> measured_families;  // empty: the profile does not say
  /// True if rows of this family, metric and kind of host are among them, or none are stated.
  bool has_measured(std::string_view family, bool slow_host, SpeedMetric metric) const;

  const GpuEfficiency& gpu_efficiency(const GpuPart& part) const;
  const FormatEfficiency& format(QuantFormat f) const;
  /// The factor on a figure in a build of `year`; without a year, of the newest.
  double factor_before(ChangedFigure figure, const KernelOwner& of,
                       std::optional<double> year) const {
    return rigcast::factor_before(changes, figure, of, year);
  }
  /// The rows of logits that a build of `year`, or the newest one, computes of a prompt.
  LogitsRows logits_at(std::optional<double> year) const;
  bool has(KvPolicy policy) const;
  std::string kv_policy_names() const;
};

}  // namespace rigcast
