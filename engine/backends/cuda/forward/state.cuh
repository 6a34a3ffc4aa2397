#pragma once
// One model on one GPU: its parts, each in a file of its own, put together.

#include <memory>

#include "core/base/stop_flag.hpp"
#include "engine/backends/cuda/forward/buffers.cuh"
#include "engine/backends/cuda/forward/device_context.cuh"
#include "engine/backends/cuda/forward/forward_context.cuh"
#include "engine/backends/cuda/forward/pace.cuh"
#include "engine/backends/cuda/host_offload/host_offload.cuh"
#include "engine/backends/cuda/kv/kv_state.cuh"
#include "engine/backends/cuda/weight_streaming/streamed_weights.cuh"
#include "engine/backends/cuda/weights/placed_model.cuh"
#include "engine/cuda/cublas/matmul.cuh"

namespace rigcast::engine::cuda {

/// What a State is made for, beside its weights.
struct StateOptions {
  CacheShape cache;
  int ubatch = 512;       // tokens of a batch at most
  ColdSharing sharing{};  // of cold blocks between host and link, where the host shares them
  int threads = 1;        // of the host
  BatchesBy batches_by = BatchesBy::kFaster;
  Ram ram{};
  MakeMemory kv_memory{};  // of the host's cache; absent: large pages, locked where they are copied
  BeforeTurn before_turn{};
  StopFlag stop{};
};

struct State {
  /// Throws MachineError, CudaFailure, ShortOfMemory.
  State(PlacedModel model_, Vram vram, const StateOptions& options);

  PlacedModel model;
  Ram ram;
  DeviceContext device;
  KvState kv;
  Matmul matmul;
  std::unique_ptr<HostOffload> host;  // nullptr: the host computes nothing
  Buffers buffers;
  StreamedWeights streamed;
  StopFlag stop;  // asked before every layer of a batch
  Pace pace;      // of a long batch's layers

  ForwardContext forward() const { return {model, device.stream, matmul, buffers}; }
  const ModelSpec& spec() const { return model.spec(); }
  const HostParts& on_host() const { return model.host; }
  int ubatch() const { return buffers.vectors.tokens; }
};

}  // namespace rigcast::engine::cuda
