#pragma once
// Options of an executor, and the GPU on which it may run.

#include <functional>
#include <optional>
#include <string>

#include "core/base/stop_flag.hpp"
#include "core/base/units.hpp"
#include "core/model/kv_bytes.hpp"
#include "core/scenario/placement.hpp"
#include "engine/kv/kv_cache.hpp"
#include "engine/kv/kv_eviction.hpp"
#include "engine/placement/prefill_offload.hpp"

namespace rigcast::engine {

/// Where the CPU has the weights of a file.
enum class WeightPages {
  kTouched,  // mapped, and in memory before the first token
  kLazy,     // mapped, and read where they are used first
  kInOrder,  // the same, and leave in the order in which they came
  kCopied,   // in memory of their own: nothing of them leaves but to swap
};

/// The CPU's executor uses kv_types, kv_block, kv_memory, weights, weight_memory, ubatch, context,
/// ram_limit, threads and stop.
struct ExecutorOptions {
  KvTypes kv_types{};  // F16, Q8_0, Q4_0
  TokenCount kv_block = 128;
  TokenCount ubatch = 512;
  TokenCount context = 0;  // the most tokens of a sequence; 0: as many as the model's context has
  std::optional<Bytes> vram_limit{};  // emulates a smaller card; absent: all that is free
  std::optional<Bytes> ram_limit{};   // of weights, caches and buffers of the host; absent: none
  int upload_threads = 4;
  bool graphs = true;                  // a token is launched as one graph; else kernel by kernel
  std::function<bool()> keep_going{};  // asked while weights arrive; false ends that
  /// Which keys and values may leave the GPU; absent: none. They go to the host in cold_type, if
  /// the cache is F16, and return over the link for every step.
  std::optional<KvEviction> kv_eviction{};
  QuantFormat cold_type = QuantFormat::kF16;  // F16, Q8_0, Q4_0
  /// The share of evicted blocks, the oldest ones, to which the host attends; absent: as much as
  /// lets host and link end together, which is measured.
  std::optional<double> host_share = 0.0;
  std::optional<Placement> placement{};  // absent: all on the GPU
  int threads = 1;                       // host threads, for the host's parts
  PrefillOffloadPolicy prefill_offload = PrefillOffloadPolicy::kFaster;
  Allocator kv_memory{};  // of the host's caches; absent: large pages
  /// Layers with a window keep no more than it needs, where one sequence's keys and values stay in
  /// one memory (window_ring.hpp); false: all tokens.
  bool window_rings = true;
  WeightPages weights = WeightPages::kTouched;
  Allocator weight_memory{};  // of weights that are copied by the CPU alone; absent: large pages
  StopFlag stop{};  // asked between layers and by the host's threads; ends a call with Interrupted
  // Called by every host thread before each host operation; an exception ends the step.
  std::function<void(int thread)> before_host_op{};
};

struct GpuDevice {
  std::string name;  // as the driver calls it: "NVIDIA H100 80GB HBM3"
  Bytes memory, free;
  std::string driver;       // "13.0", the latest CUDA that it knows
  bool integrated = false;  // its memory is the host's: a Jetson, a GB10
};

}  // namespace rigcast::engine
