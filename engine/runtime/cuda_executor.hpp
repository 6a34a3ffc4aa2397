#pragma once
// The executor of an NVIDIA GPU, and of the host where it has parts of the model. A build without
// CUDA has the same functions, which say so.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/base/error.hpp"
#include "core/model/kv_cache.hpp"
#include "core/scenario/placement.hpp"
#include "core/base/stop_flag.hpp"
#include "core/model/tensor_table.hpp"
#include "engine/gguf/file.hpp"
#include "engine/runtime/break_even.hpp"
#include "engine/kv/kv_cache.hpp"
#include "engine/runtime/executor.hpp"

namespace rigcast::engine {

struct CudaOptions {
  KvTypes kv_types{};  // F16, Q8_0, Q4_0
  TokenCount kv_block = 128;
  TokenCount ubatch = 512;
  std::optional<Bytes> vram_limit{};  // stands in for a smaller card; absent: all that is free
  std::optional<Bytes> ram_limit{};   // of weights, caches and buffers of the host; absent: none
  int upload_threads = 4;
  bool graphs = true;             // a token is launched as one graph; else kernel by kernel
  std::function<bool()> go_on{};  // asked while weights arrive; false ends that
  /// Tokens whose keys and values stay on the GPU, in whole blocks; absent: all. Older ones go to
  /// the host in cold_type, if the cache holds halves, and come over the link for every step.
  std::optional<TokenCount> hot_tokens{};
  QuantFormat cold_type = QuantFormat::kF16;  // F16, Q8_0, Q4_0
  /// Of what has left the GPU, the oldest, the host attends to this share itself; absent: to as
  /// much as lets it and the link end together, which is measured.
  std::optional<double> host_share = 0.0;
  std::optional<Placement> placement{};  // absent: all on the GPU
  int threads = 1;                       // of the host, for its parts
  BatchesBy batches_by = BatchesBy::kFaster;
  MakeMemory kv_memory{};                // of the host's caches; absent: large pages
  StopFlag stop{};  // asked between layers and by the host's threads; ends a call with Interrupted
  // Called by every thread of the host before each of its turns: what it throws ends the step.
  std::function<void(int thread)> before_turn{};
};

/// Copies the weights from where they lie in memory. Those that the placement leaves to the host
/// are copied, too, or read, into pinned memory of their own: kDoesNotFit where there is too
/// little.
Result<std::unique_ptr<Executor>> make_cuda_executor(std::shared_ptr<const Model> model,
                                                     const CudaOptions& options);

/// Reads the file into the GPU's memory. Errors: those of load_model; kDoesNotFit where the GPU's
/// memory or the limit of the host's does not hold the weights; kMachine where there is no GPU, or
/// `go_on` ended it.
Result<std::unique_ptr<Executor>> make_cuda_executor(const GgufFile& file,
                                                     const CudaOptions& options);

/// Weights are made on the GPU: the same bytes as make_synthetic_model's.
Result<std::unique_ptr<Executor>> make_synthetic_cuda_executor(const ModelSpec& spec,
                                                               const TensorTable& tensors,
                                                               std::uint64_t seed,
                                                               const CudaOptions& options);

struct CudaDevice {
  std::string name;  // as the driver calls it: "NVIDIA H100 80GB HBM3"
  Bytes memory, free;
  std::string driver;       // "13.0", the latest CUDA that it knows
  bool integrated = false;  // its memory is the host's: a Jetson, a GB10
};
/// The first one. kMachine where there is none that CUDA can use, or none of this program's code
/// fits it, with why.
Result<CudaDevice> cuda_device();

/// Gives back what this process holds of the GPU, so that another finds all of it. No executor may
/// live.
void leave_cuda();

}  // namespace rigcast::engine
