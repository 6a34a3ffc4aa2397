#pragma once
// How a runtime behaves: what it can do, what it allocates, what it overlaps and what its kernels
// reach of the hardware. Schema of the files: runtimes/README.md.

#include <map>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/quant_format.hpp"
#include "core/rig.hpp"
#include "core/sourced.hpp"
#include "core/toml_reader.hpp"

namespace rigcast {

enum class KvPolicy { kVram, kRam, kStream, kPaged, kCombined, kSpill };
std::string_view name(KvPolicy policy);
std::optional<KvPolicy> kv_policy_from(std::string_view text);

enum class KvAllocation {
  kWholeContext,  // at load, for the context limit
  kPool,          // what is left of the memory, in blocks
  kGrownByCopy,   // a new, longer tensor for every step
};
enum class LogitsRows { kUbatch, kPrompt, kLast };
enum class Staging { kPinned, kPageable };

/// What a runtime's kernels reach on one GPU architecture. Shares are of the data sheet's rate.
struct GpuEfficiency {
  Sourced<double> read_float, read_q8, read_q4, read_k, read_iq;  // weights, one token at a time
  Sourced<double> kv_read;       // attention over the cache, one token at a time
  Sourced<double> matmul_float;  // of fp16_tensor, large batches
  Sourced<double> matmul_quant;
  Sourced<double> matmul_half_batch;  // tokens in a batch at which half of that rate is reached
  Sourced<double> attention;          // of fp16_tensor, prefill attention
  Sourced<Seconds> kernel_gap;        // from one kernel's end to the next one's start

  const Sourced<double>& read_share(QuantFormat f) const;
};

struct CpuEfficiency {
  Sourced<double> read;                     // of RAM bandwidth, all cores, weights
  Sourced<double> kv_read;                  // of RAM bandwidth, attention over the cache
  Sourced<BytesPerSecond> read_per_thread;  // what one thread can draw
  std::map<std::string, Sourced<double>> flops_per_cycle;  // one core, by SIMD level
  Sourced<Seconds> operation_gap;                          // threads meet between operations
};

struct RuntimeProfile {
  std::string id;
  std::string name;
  std::string era;
  std::string source;
  std::vector<KvPolicy> kv_policies;
  bool weight_streaming = false;  // decode: weights of host layers may be copied to the GPU
  bool quantized_v_needs_flash = false;
  bool cpu_decode = false;        // decode on the CPU after prefill on the GPU

  struct Memory {
    KvAllocation kv = KvAllocation::kWholeContext;
    TokenCount kv_padding = 1;  // attention reads cells rounded up to this
    LogitsRows logits = LogitsRows::kLast;
    bool maps_file = false;  // host weights are the file's own pages
    Bytes staging;           // pinned buffers per GPU
  } memory;

  struct Load {
    Bytes chunk;
    bool overlap = false;  // disk reads run ahead of the copies to the GPU
    Staging staging = Staging::kPinned;
    Sourced<double> ssd_share;          // of the SSD's sequential rate
    Sourced<BytesPerSecond> host_copy;  // page cache to buffer, one pipeline
  } load;

  struct Prefill {
    TokenCount stream_min_batch = 32;  // host weights are copied to the GPU from this batch on
    bool streams = false;
    bool overlap = false;        // the next weights are copied while these compute
    bool picks_faster = false;   // streams only where that beats the CPU
    bool whole_prompt = false;   // one batch, whatever the ubatch setting
    bool cpu_attention = false;  // with KV in RAM, the prompt's attention is on the CPU too
    Staging staging = Staging::kPageable;
  } prefill;

  struct Decode {
    Sourced<Seconds> crossing;  // one handoff between CPU and GPU
    Sourced<Seconds> token;     // host work for each token besides sampling
    Sourced<Seconds> sample;
    Sourced<Seconds> tokenize;     // one prompt token
    Sourced<double> stream_share;  // of the pinned link rate that streamed weights and KV reach
    int prefetch_depth = 0;        // buffers for streamed layers; 0: fetched when needed
    bool copies_kv = false;        // the cache is copied whole at every step
    bool expands_kv = false;       // attention first writes K and V out once for every query head
  } decode;

  struct Kernels {
    int attention = 0, ffn = 0, moe = 0, head = 0;  // launches in a layer; moe in place of ffn
  } kernels;

  std::map<std::string, GpuEfficiency> gpu;  // by architecture; "default" always exists
  CpuEfficiency cpu;

  struct Uncertainty {
    Sourced<double> decode, prefill, load;  // half-width of the 80 % interval, as a share
  } uncertainty;

  const GpuEfficiency& gpu_efficiency(const GpuPart& part) const;
  bool has(KvPolicy policy) const;
  std::string kv_policy_names() const;
};

Result<RuntimeProfile> load_runtime_profile(const std::filesystem::path& file);

}  // namespace rigcast
