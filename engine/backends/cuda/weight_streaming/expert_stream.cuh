#pragma once
// Experts whose weights the host keeps, on the GPU for one batch: those that its tokens chose are
// copied some at a time while others compute.

#include <functional>
#include <span>
#include <vector>

#include "engine/backends/cuda/weight_streaming/copy_slots.cuh"
#include "engine/backends/cuda/weights/device_model.cuh"
#include "engine/cuda/cuda_buffer.cuh"
#include "engine/cuda/memory/vram.cuh"
#include "engine/model/model.hpp"

namespace rigcast::engine::cuda {

/// Experts [first, end) of a layer. Their matrices are in the stacks where kernels look for them by
/// the expert's number; those of experts without tokens are not there.
struct ArrivedExperts {
  int first = 0, end = 0;
  MatrixStack gate, up, down;
};

/// Copies have up to some 10 MB; of experts that are less than half a megabyte apart there is one.
/// Throws CudaFailure.
class ExpertStream {
 public:
  /// Of these layers, at least one, whose blocks lie in pinned memory of `model`, which outlives
  /// it. Takes "streamed weights" from `vram` (ShortOfMemory), and gives `weights` the shapes of
  /// their experts.
  ExpertStream(Vram& vram, const Stream& computing, const Model& model,
               const std::vector<int>& layers, DeviceModel& weights);

  /// Brings the experts of a layer that have tokens: counts[expert] > 0. What `use` queues on the
  /// computing stream finds those it is given, until it is called again.
  void bring(int layer, std::span<const int> counts,
             const std::function<void(const ArrivedExperts&)>& use);

  /// On the host, for counts of a batch.
  std::span<int> counts() { return {counts_.as<int>(), counts_.bytes() / sizeof(int)}; }
  BytesPerSecond measure_link();
  /// Copied since the last call of this.
  double take_bytes() { return std::exchange(bytes_, 0.0); }

 private:
  // Experts [first, end) that are in a slot together.
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
  int first_layer_;  // of those whose experts come
  CopySlots slots_;
  VramPiece planes_;
  PinnedBuffer counts_;
  double bytes_ = 0;
};

}  // namespace rigcast::engine::cuda
