#pragma once
// Experts whose weights the host keeps, streamed to the GPU for one batch: the experts that its
// tokens chose are copied in chunks while others are computed.

#include <functional>
#include <span>
#include <vector>

#include "engine/backends/cuda/weight_streaming/copy_slots.cuh"
#include "engine/backends/cuda/weights/device_model.cuh"
#include "engine/cuda/cuda_buffer.cuh"
#include "engine/cuda/memory/vram.cuh"
#include "engine/model/model.hpp"

namespace rigcast::engine::cuda {

/// Experts [first, end) of a layer. Kernels find their matrices in the stacks by the expert's
/// number; matrices of experts without tokens are not there.
struct ArrivedExperts {
  int first = 0, end = 0;
  DeviceMatrixStack gate, up, down;
};

/// Copies have up to about 10 MB; experts that are less than half a megabyte apart share one.
/// Throws CudaFailure.
class ExpertStream {
 public:
  /// Makes a stream of the experts of `layers` (at least one), whose quant blocks are in pinned
  /// memory of `model`, which outlives it. Allocates "streamed weights" from `vram`
  /// (ShortOfMemory), and sets the shapes of their experts in `weights`.
  ExpertStream(Vram& vram, const Stream& computing, const Model& model,
               const std::vector<int>& layers, DeviceModel& weights);

  /// Copies the experts of a layer that have tokens: counts[expert] > 0. Work that `use` queues on
  /// the computing stream finds the experts that it was given, until `use` is called again.
  void stream_in(int layer, std::span<const int> counts,
                 const std::function<void(const ArrivedExperts&)>& use);

  /// Pinned memory for the counts of a batch.
  std::span<int> counts() { return {counts_.as<int>(), counts_.bytes() / sizeof(int)}; }
  BytesPerSecond measure_link();
  /// Bytes copied since the last call.
  double take_bytes() { return std::exchange(bytes_, 0.0); }

 private:
  // Experts [first, end), which are in a slot at the same time.
  struct Chunk {
    int first = 0, end = 0;
  };
  int at_once(const Layer& layer) const;
  std::vector<Chunk> chunks_of(const Layer& layer, std::span<const int> counts) const;
  std::vector<CopyRun> runs_of(const Layer& layer, const Chunk& chunk,
                               std::span<const int> counts) const;
  ArrivedExperts unpack(const Layer& layer, const Chunk& chunk, std::span<const int> counts,
                        const std::byte* blocks);

  const Stream& computing_;
  const Model& model_;
  int first_layer_;  // the first layer with streamed experts
  CopySlots slots_;
  VramPiece soa_;
  PinnedBuffer counts_;
  double bytes_ = 0;
};

}  // namespace rigcast::engine::cuda
