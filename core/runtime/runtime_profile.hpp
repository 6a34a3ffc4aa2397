#pragma once
// How a runtime behaves: what it can do, what it allocates, what it overlaps and what its kernels
// reach of the hardware. Schema of the files: runtimes/README.md.

#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/sourced.hpp"
#include "core/hardware/rig.hpp"
#include "core/model/quant_format.hpp"
#include "core/runtime/backend.hpp"
#include "core/runtime/cpu_efficiency.hpp"
#include "core/runtime/format_group.hpp"
#include "core/runtime/gpu_efficiency.hpp"
#include "core/runtime/kv_policy.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast {

/// Whose rules memory and steps follow: each has an implementation in perfmodel/runtimes.
enum class RuntimeRules { kLlamaCpp, kTransformers, kRigcast };
std::string_view name(RuntimeRules rules);

enum class LogitsRows { kUbatch, kPrompt, kLast };
enum class Staging { kPinned, kPageable };

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
  /// All that its figures come from, and where fitted ones would be.
  std::vector<std::filesystem::path> files;
  RuntimeRules rules = RuntimeRules::kLlamaCpp;
  std::vector<KvPolicy> kv_policies;
  std::vector<std::string> fitted_on;  // configurations of which runs gave figures of this profile
  bool weight_streaming = false;       // decode: weights of host layers may be copied to the GPU
  bool quantized_v_needs_flash = false;
  bool cpu_decode = false;  // decode on the CPU after prefill on the GPU
  bool ffn_in_ram = false;  // dense FFNs may be the host's while the rest of a layer is a GPU's

  struct Memory {
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
    Sourced<double> expert_cycles;    // scales a GPU's cycles for routed experts
    Sourced<double> stream_share;     // of the pinned link rate that streamed weights and KV reach
    Sourced<Seconds> copy_start;      // of each of the copies that cold blocks come in
    Sourced<Seconds> host_roundtrip;  // of a layer's, to the host about cold blocks, and its answer
    int prefetch_depth = 0;           // buffers for streamed layers; 0: fetched when needed
    bool copies_kv = false;           // the cache is copied whole at every step
    bool expands_kv = false;  // attention first writes K and V out once for every query head
  } decode;

  /// Launches in a layer: latent or recurrent in place of attention, moe in place of ffn.
  struct Kernels {
    Sourced<double> attention, latent, recurrent, ffn, moe, head;
  } kernels;

  std::map<std::string, GpuEfficiency> gpu;  // by architecture; "default" always exists
  std::array<FormatEfficiency, kFormatGroupCount> formats;
  bool has_q5_figures = false;                            // else Q5_0 and Q5_1 are of the group q4
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

}  // namespace rigcast
