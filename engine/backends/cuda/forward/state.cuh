#pragma once
// All parts of one model on one GPU, each defined in a file of its own.

#include <memory>
#include <optional>

#include "core/base/stop_flag.hpp"
#include "core/scenario/engine_sizes.hpp"
#include "engine/backends/cuda/forward/buffers.cuh"
#include "engine/backends/cuda/forward/device_context.cuh"
#include "engine/backends/cuda/forward/forward_context.cuh"
#include "engine/backends/cuda/forward/launch_throttle.cuh"
#include "engine/backends/cuda/host_offload/host_offload.cuh"
#include "engine/backends/cuda/kv/kv_state.cuh"
#include "engine/backends/cuda/recurrent/device_states.cuh"
#include "engine/backends/cuda/recurrent/state_mirror.cuh"
#include "engine/backends/cuda/weight_streaming/streamed_weights.cuh"
#include "engine/backends/cuda/weights/placed_model.cuh"
#include "engine/cuda/cublas/matmul.cuh"

namespace rigcast::engine::cuda {

/// Options of a State.
struct StateOptions {
  CacheShape cache;
  int ubatch = 512;          // largest number of tokens in a batch
  CpuGpuKvSplit kv_split{};  // split of cold blocks between host and link
  int threads = 1;           // threads of the host
  PrefillOffloadPolicy prefill_offload = PrefillOffloadPolicy::kFaster;
  Ram ram{};
  Allocator kv_memory{};  // threads of the host
  BeforeHostOp before_host_op{};
  StopFlag stop{};
  int states = kStatesOfOneSequence;  // that recurrent layers keep
};

struct State {
  /// Throws MachineError, CudaFailure, ShortOfMemory.
  State(PlacedModel model_, Vram vram, const StateOptions& options);

  PlacedModel model;
  Ram ram;
  DeviceContext device;
  KvState kv;
  DeviceStates states;  // of recurrent layers
  Matmul matmul;
  std::unique_ptr<HostOffload> host;        // nullptr: the host computes nothing
  // Where the host decodes what the GPU has prefilled, or the GPU prefills for the host's layers.
  std::optional<StateMirror> state_mirror;
  Buffers buffers;
  StreamedWeights streamed;
  StopFlag stop;            // checked before every layer of a batch
  LaunchThrottle throttle;  // for the layers of long batches

  ForwardContext forward() const { return {model, device.stream, matmul, buffers}; }
  const ModelSpec& spec() const { return model.spec(); }
  const HostPlacement& on_host() const { return model.host; }
  int ubatch() const { return buffers.vectors.tokens; }
  /// Thread blocks that attend for all heads of a token to one part of its context.
  int attention_groups() const;
};

}  // namespace rigcast::engine::cuda
