#pragma once
// A scenario: rig + model + quant mix + placement + KV settings + runtime profile + workload, as
// one TOML file. Every key has one home here; command line flags set the same keys.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/catalogue/catalogue.hpp"
#include "core/hardware/rig.hpp"
#include "core/model/kv_bytes.hpp"
#include "core/model/model_spec.hpp"
#include "core/model/quant_mix.hpp"
#include "core/model/tensor_table.hpp"
#include "core/pressure/memory_settings.hpp"
#include "core/runtime/runtime_profile.hpp"
#include "core/scenario/load.hpp"
#include "core/scenario/numa_policy.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast {

enum class DecodeDevice {
  kPlacement,  // every layer where its weights are
  kGpu,        // every layer on a GPU; weights of host layers are copied there for each token
  kCpu,        // prefill on the GPU, decode on the CPU
};
std::string_view name(DecodeDevice device);

/// Several GPUs have whole layers each, and compute them one after the other.
struct PlacementSettings {
  std::optional<int> gpu_layers;          // nullopt: as many as fit
  std::string split_mode{kSplitByLayer};  // how several GPUs divide the model
  GpuGroups groups;                       // how those of a paged server do
  std::vector<double> tensor_split;       // share of the GPU layers per GPU; empty: by free memory
  int cpu_moe_layers = 0;                 // leading layers whose routed experts stay in host memory
  int cpu_ffn_layers = 0;                 // the same of dense FFNs
  DecodeDevice decode_device = DecodeDevice::kPlacement;
  bool fits_experts = false;  // experts move to host memory before whole layers do
};

enum class Eviction { kOldest, kLru };

struct KvSettings {
  KvPolicy policy = KvPolicy::kVram;
  KvTypes types;
  double threshold = 0.95;      // share of the remaining VRAM at which blocks are evicted
  TokenCount hot_tokens = 512;  // newest tokens that never leave VRAM
  TokenCount block_tokens = 128;
  QuantFormat cold_type = QuantFormat::kF16;
  Eviction evict = Eviction::kOldest;
  bool prefetch = true;

  /// Types of evicted blocks: `cold_type` if the cache is F16, else the cache's own types.
  KvTypes cold_types() const {
    const bool is_fp16 = types.k == QuantFormat::kF16 && types.v == QuantFormat::kF16;
    return is_fp16 ? KvTypes{cold_type, cold_type} : types;
  }
};

struct RuntimeSettings {
  int threads = 0;  // 0 in the file: all performance cores
  int batch = 2048;
  int ubatch = 512;
  bool flash_attention = true;
  Backend backend = Backend::kCpu;      // "auto" in the file: what suits the GPUs
  std::optional<double> build_year{};   // 2024.5: July 2024; nullopt: the profile's own era
  bool mmap = true;                     // host weights are the file's pages; else pinned buffers
  NumaPolicy numa = NumaPolicy::kNone;  // which memory nodes hold and read the weights
  int neighbours = 0;                   // threads of other programs that read RAM all the time
  bool isolated = false;                // from them: cores of its own (isolcpus, taskset, cpuset)
  bool cpu_blas = false;                // the CPU's large batches: FP32 products of a BLAS
  bool matrix_units = true;             // false: the driver has none, or they are switched off
  bool op_offload = true;               // large batches of host layers may be computed on the GPU
  Bytes headroom{};                     // of each GPU in use: stays free where layers are placed
};

enum class Start { kResident, kWarm, kCold };
std::string_view name(Start start);

struct Workload {
  TokenCount depth = 0;  // tokens already in the cache when the request comes
  TokenCount prompt_tokens = 512;
  TokenCount output_tokens = 128;
  TokenCount context = 0;  // the limit that memory is planned for
  int users = 1;
  Start start = Start::kWarm;
  /// Neither depth nor prompt was stated: the request is the middle turn of a conversation that
  /// fills the context.
  bool fills_context = false;

  /// Tokens in the cache when the last output token is computed.
  TokenCount last_position() const { return depth + prompt_tokens + output_tokens - 1; }
};

/// A vision projector beside the model. The runtime reads it into memory of its own; neither its
/// compute buffer nor the time that an image takes is forecast.
struct Projector {
  std::filesystem::path file;
  Bytes bytes;         // of its tensors
  bool on_gpu = true;  // on the first GPU, if there is one
};

/// A model that proposes tokens for speculative decoding. Its memory and its load are forecast, not
/// what it gains.
struct DraftModel {
  ModelSpec model;
  std::string quant;
  TensorTable tensors;
  std::optional<std::filesystem::path> file;  // that it was read from
  // It is on the GPUs whole, with a cache in F16, whatever the model's own is.
  PlacementSettings placement{};
  KvSettings kv{};
};

struct Scenario {
  // Compiled once: inline, they were half of the code of sources that hold one.
  Scenario();
  Scenario(const Scenario&);
  Scenario(Scenario&&) noexcept;
  Scenario& operator=(const Scenario&);
  Scenario& operator=(Scenario&&) noexcept;
  ~Scenario();

  Rig rig;
  ModelSpec model;
  std::string quant;
  TensorTable tensors;
  RuntimeProfile runtime;
  PlacementSettings placement;
  KvSettings kv;
  RuntimeSettings settings;
  Workload workload;
  std::optional<SchedulerPolicy> scheduler;         // of the runtime's server, if it has one
  std::optional<Load> load;                         // nullopt: one request, the workload's
  std::optional<MemorySettings> memory;             // nullopt: no [memory]: RAM alone, no swap
  std::optional<std::filesystem::path> model_file;  // that the model was read from
  std::optional<Projector> projector;
  std::optional<DraftModel> draft;
  std::vector<std::string> warnings;

  /// The correction of this runtime's speed, from the rig's own runs; nullptr: none.
  const Correction* correction() const;
};

/// What is not forecast of the scenario's projector and draft model, a line for each.
std::vector<std::string> notes_on_companions(const Scenario& scenario);

/// Reads every key of `document`, fills in the defaults and resolves all names.
Result<Scenario> make_scenario(const TomlDocument& document, const Catalogue& catalogue);

}  // namespace rigcast
